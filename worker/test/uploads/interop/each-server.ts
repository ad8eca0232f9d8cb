/** One suite against every server that takes uploads. */
import { afterAll, beforeAll, describe } from 'vitest';
import { withProgram } from '../../../../testkit/programs/programs.ts';
import { sharedService, type Service } from '../../../../testkit/service.ts';
import { ourUploads, startTusd, startTusNode, type TusServer } from './servers.ts';
import { long } from '../../../../testkit/long-run.ts';

/**
 * Declares the tests of a suite for our service in encrypted mode; in the long form for plain mode,
 * tusd and @tus/server as well: what fails there, too, is the client or the test.
 *
 * @param suite gets the server once it runs, that is in hooks and tests
 */
export function onEachServer(suite: (server: () => TusServer) => void): void {
  const on = (name: string, start: () => Promise<TusServer>): void => {
    describe(name, () => {
      let server: TusServer;
      beforeAll(async () => {
        server = await start();
      });
      afterAll(() => server.close());
      suite(() => server);
    });
  };
  describe('our service', () => {
    let service: Service;
    beforeAll(async () => {
      service = await sharedService();
    });
    on('encrypted', () => ourUploads(service, 'encrypted'));
    if (long) on('plain', () => ourUploads(service, 'plain'));
  });
  if (!long) return;
  on('@tus/server', startTusNode);
  withProgram('tusd', { probe: ['-version'], isOptional: true }, () => on('tusd', startTusd));
}
