/** The node on a disk of 16 MiB that fills up. */
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { onSmallDisk } from '../../../testkit/small-disk.ts';
import { directory } from './node-harness.ts';
import { inCi } from '../../../testkit/long-run.ts';

const module = (path: string) => JSON.stringify(fileURLToPath(new URL(path, import.meta.url)));
const program = `
  import { startNode } from ${module('../../local/node/server.ts')};
  import { carHeader, carSection, cidOf } from ${module('../../../shared/ipfs/index.ts')};
  import { hash, randomBytes } from 'node:crypto';
  import { readdirSync } from 'node:fs';
  const dir = process.env.DISK + '/node';
  const node = await startNode({ dir, token: 't' });
  const ask = async (path, body) => {
    const headers = { authorization: 'Bearer t' };
    const reply = await fetch(node.url + '/api/v0/' + path, { method: 'POST', headers, ...(body && { body }) });
    return { status: reply.status, ...(await reply.json()) };
  };
  const add = (bytes) => { const form = new FormData(); form.set('file', new Blob([bytes])); return ask('add', form); };
  const importLeaves = (count) => {
    const leaves = Array.from({ length: count }, () => randomBytes(1_048_576));
    const car = leaves.flatMap((leaf) => [carSection(cidOf('raw', hash('sha256', leaf, 'buffer')), leaf.length), leaf]);
    const form = new FormData();
    form.set('file', new Blob([carHeader(), ...car]));
    return ask('dag/import?pin-roots=false&stats=true', form);
  };
  const files = () => readdirSync(dir + '/data').length;
  const small = await add(randomBytes(3_000_000));
  const large = await add(randomBytes(20_000_000));
  const largeImport = await importLeaves(20);
  const left = files();
  // Until the last bytes: rows and pins need room, too.
  let filled = 0;
  let full;
  for (let bytes = 2_000_000; bytes >= 1; bytes = full ? bytes >> 1 : bytes) {
    full = undefined;
    const reply = await add(randomBytes(bytes));
    if (reply.status === 200) filled += 1; else full = reply;
  }
  const kept = files();
  const still = await ask('block/stat?arg=' + small.Hash);
  await node.close();
  const again = await startNode({ dir, token: 't' });
  node.url = again.url;
  const pins = Object.keys((await ask('pin/ls?type=recursive')).Keys).length;
  const removed = await ask('pin/rm?arg=' + small.Hash);
  const after = await add(randomBytes(1_000_000));
  const importAfter = await importLeaves(1);
  await again.close();
  const asked = { small, large, largeImport, full, still, removed, after, importAfter };
  console.log(JSON.stringify({ ...asked, left, filled, kept, pins }));
`;

inCi('disk full: a clear error, nothing half there, and it works again when there is room', async (context) => {
  const dir = await directory();
  const ran = await onSmallDisk(context, {
    disk: dir,
    mebibytes: 16,
    script: 'exec "$NODE" --input-type=module -e "$PROGRAM"',
    env: { PROGRAM: program },
  });
  expect(ran.stderr).toBe('');
  const result = JSON.parse(ran.stdout) as Record<string, Record<string, unknown>>;
  const expected = { status: 500, Message: 'no space left on device', Code: 0, Type: 'error' };
  expect(result['small']).toMatchObject({ status: 200 });
  expect(result['large']).toEqual(expected);
  expect(result['largeImport']).toEqual(expected);
  expect(result['left']).toBe(1);
  expect(result['full']).toEqual(expected);
  expect(result['filled']).toBeGreaterThan(0);
  expect(result['kept']).toBe(Number(result['filled']) + 1);
  expect(result['pins']).toBe(result['kept']);
  expect(result['still']).toMatchObject({ status: 200 });
  expect(result['removed']).toMatchObject({ status: 200 });
  expect(result['after']).toMatchObject({ status: 200 });
  expect(result['importAfter']).toMatchObject({ status: 200, Stats: { BlockCount: 1 } });
});
