/**
 * `@helia/verified-fetch`, a client that reads block by block, with the service as its only
 * gateway.
 */
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { leafBytes } from '../../../../shared/ipfs/index.ts';
import { startService, type Service } from '../../../../testkit/service.ts';
import { newOwner, type Owner } from '../../stored-state.ts';
import { long } from '../../../../testkit/long-run.ts';

const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache');
// .ci/helia installs it.
const folder = join(cache, 'sealpin/verified-fetch');
const installed = join(folder, 'node_modules');

let service: Service;
let owner: Owner;
beforeAll(async () => {
  service = await startService();
  owner = await newOwner(service);
});
afterAll(async () => service.close());

/**
 * The lines of the manual, with the installed packages, and for a service on loopback without TLS.
 */
const lines = (
  /```js\n(import \{ createHeliaLight[^]*?)```/.exec(
    readFileSync(join(import.meta.dirname, '../../../README.md'), 'utf8'),
  )?.[1] ?? ''
)
  .replaceAll(
    /from '([^']+)'/g,
    (_, name: string) => `from ${JSON.stringify(join(installed, name, 'dist/src/index.js'))}`,
  )
  .replace('recursiveGateways: [SERVICE]', '$&, allowInsecure: true, allowLocal: true')
  .replace(/await fetch\((.*)\)/, 'await fetch($1, { headers, allowInsecure: true, allowLocal: true })');

/** Runs in a process of its own: prints status, length and SHA-256 of what it reads. */
const program = `
  import { createHash } from 'node:crypto';
  const [, SERVICE, CID, range] = process.argv;
  const headers = range === undefined ? {} : { range };
  ${lines}
  const bytes = new Uint8Array(await response.arrayBuffer());
  console.log(JSON.stringify([response.status, bytes.length, createHash('sha256').update(bytes).digest('hex')]));
  process.exit(0);
`;

async function read(cid: string, range?: string): Promise<unknown> {
  const args = ['--input-type=module', '-e', program, service.url, cid];
  const { stdout } = await promisify(execFile)(process.execPath, range === undefined ? args : [...args, range], {
    timeout: 60_000,
  });
  return JSON.parse(stdout);
}

const seen = (status: number, bytes: Uint8Array) => [
  status,
  bytes.length,
  createHash('sha256').update(bytes).digest('hex'),
];

// Written when the installation is complete.
if (!existsSync(join(folder, 'installed'))) test.skip('@helia/verified-fetch is not installed: its tests do not run');
else if (!long) test.skip('@helia/verified-fetch is read with in the long form only');
else
  describe('@helia/verified-fetch with the service as its only gateway', () => {
    test.each([1, leafBytes, leafBytes + 1, 20_000_000])('reads a file of %i bytes', async (size) => {
      const bytes = randomBytes(size);
      const { cid } = await owner.call.store('plain', bytes);
      expect(await read(cid)).toEqual(seen(200, bytes));
    });

    test('reads a range', async () => {
      const bytes = randomBytes(5 * leafBytes);
      const { cid } = await owner.call.store('plain', bytes);
      const [start, end] = [leafBytes - 5, 3 * leafBytes + 5];
      expect(await read(cid, `bytes=${start}-${end}`)).toEqual(seen(206, bytes.subarray(start, end + 1)));
    });
  });
