/** A user of a service that lies, one lie at a time. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect } from 'vitest';
import { faultyProxy, type ProxyFault, type Passed } from '../../../testkit/faulty-proxy.ts';
import { run, temporaryDirectory, type Ran } from '../environment.ts';
import { sharedLocalService } from '../local.ts';

export type Json = Record<string, unknown>;
/** What the service does to a request; undefined passes it on. */
export type Lie = (request: Passed) => ProxyFault | undefined;

const password = 'violet-anchor-tundra-mosaic';

/** A service, and a user with files and keys, for the tests of a file. */
export function victim() {
  const local = sharedLocalService();
  const self = {
    local,
    /** A folder of the user, in which `home` is the data directory. */
    desk: '',
    /** The address of the service, as its users know it: who runs it answers there. */
    url: '',
    lie: undefined as Lie | undefined,
    /** A command of the user; another `home` is another machine, or somebody else. */
    sealpin: (argv: readonly string[], home = 'home', env: Record<string, string> = {}): Promise<Ran> =>
      run([...argv, '--data-dir', home], self.desk, {
        env: { SEALPIN_SERVICE: `${self.url}/`, SEALPIN_API_KEY: local.apiKey, SEALPIN_PASSWORD: password, ...env },
      }),
    /** Output of a command that succeeds. */
    async printed(argv: readonly string[], home?: string): Promise<string> {
      const ran = await self.sealpin([...argv, '--quiet'], home);
      expect(ran, ran.stderr).toMatchObject({ exit: 0 });
      return ran.stdout.trim();
    },
    /**
     * The code with which a command fails: any other failure would not be the one that is meant.
     */
    refusal: async (argv: readonly string[], home?: string): Promise<unknown> =>
      codeOf(await self.sealpin([...argv, '--json'], home)),
    /** Receives a link, with no password and no account. */
    receive: (link: string, home = 'reader', flags: readonly string[] = []): Promise<Ran> =>
      run(['receive', link, 'got', ...flags, '--data-dir', home], self.desk, { env: {} }),
  };
  beforeEach(async () => {
    self.lie = undefined;
    self.desk = await temporaryDirectory();
    self.url = (
      await faultyProxy(
        () => local.url,
        (request) => self.lie?.(request),
      )
    ).url;
    await writeFile(join(self.desk, 'letter.txt'), 'Dear Ann\n');
    await self.sealpin(['keygen']);
  });
  return self;
}

/** The code of a failure; undefined for a command that succeeds. */
export function codeOf({ exit, stderr }: Ran): unknown {
  return exit === 0 ? undefined : (JSON.parse(stderr.trim().split('\n').at(-1) ?? '') as Json)['code'];
}

type Which = (request: Passed) => boolean;
/** Rewrites the JSON of the answers to some requests. */
export const rewriting =
  (isFor: Which, rewrite: (value: Json) => unknown): Lie =>
  (request) =>
    isFor(request)
      ? {
          kind: 'rewrite',
          rewrite: (answer) => ({
            ...answer,
            body: Buffer.from(JSON.stringify(rewrite(JSON.parse(answer.body.toString()) as Json))),
          }),
        }
      : undefined;

/** Answers some requests with other bytes. */
export const answering =
  (isFor: Which, body: Uint8Array): Lie =>
  (request) =>
    isFor(request) ? { kind: 'rewrite', rewrite: (answer) => ({ ...answer, body: Buffer.from(body) }) } : undefined;

const security = (await readFile(new URL('../../../SECURITY.md', import.meta.url), 'utf8')).replaceAll(/\s+/g, ' ');
/** Asserts that SECURITY.md says what no client can notice. */
export const isSaid = (sentence: string): void => expect(security).toContain(sentence);
