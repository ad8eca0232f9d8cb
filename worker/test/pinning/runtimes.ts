/** The runtimes that an adapter is tested in, and services to test it with. */
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startModule } from '../../../testkit/workerd.ts';
import { play, type Outcome, type Scenario } from './scenario.ts';

export type Runtime = { play(scenario: Scenario): Promise<Outcome>; close(): Promise<void> };

export const runtimes: Record<string, () => Promise<Runtime>> = {
  Node: async () => ({ play, close: async () => undefined }),
  async workerd() {
    const { url, close } = await startModule('worker/test/pinning/entry.ts');
    return {
      async play(scenario) {
        const response = await fetch(url, { method: 'POST', body: JSON.stringify(scenario) });
        return await response.json<Outcome>();
      },
      close,
    };
  },
};

/** A service made of one handler. `bodies`: how each request's body ended, in order. */
export type Fake = {
  url: string;
  commands: string[];
  lengths: (string | undefined)[];
  bodies: ('whole' | 'aborted')[];
  close(): Promise<void>;
};

export async function fake(handler: (request: IncomingMessage, response: ServerResponse) => void): Promise<Fake> {
  const commands: string[] = [];
  const lengths: (string | undefined)[] = [];
  const bodies: ('whole' | 'aborted')[] = [];
  const listener: RequestListener = (request, response) => {
    commands.push(request.url ?? '');
    lengths.push(request.headers['content-length']);
    request.on('close', () => bodies.push(request.complete ? 'whole' : 'aborted'));
    handler(request, response);
  };
  const server = createServer(listener);
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    commands,
    lengths,
    bodies,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Reads a request's body before doing something. */
export function afterBody(then: (request: IncomingMessage, response: ServerResponse) => void) {
  return (request: IncomingMessage, response: ServerResponse) => {
    request.on('end', () => then(request, response)).resume();
  };
}
