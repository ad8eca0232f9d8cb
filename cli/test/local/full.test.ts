/** The local service on a disk that another program fills to the last byte. */
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { onSmallDisk } from '../../../testkit/small-disk.ts';
import { directory } from '../node/node-harness.ts';

const program = `
  import { startService } from ${JSON.stringify(fileURLToPath(new URL('../../local/service.ts', import.meta.url)))};
  import { mkdirSync, rmSync, writeFileSync, appendFileSync } from 'node:fs';
  import { setTimeout as sleep } from 'node:timers/promises';
  const dataDir = process.env.DISK + '/home';
  mkdirSync(dataDir);
  const log = [];
  const { url, apiKey, stop } = await startService({ dataDir, port: 0, kubo: {}, log: (line) => log.push(line) });
  const call = async (path, init = {}) => {
    const reply = await fetch(url + path, { ...init, headers: { authorization: 'Bearer ' + apiKey } });
    const { fileId, code, pins } = await reply.json();
    return { status: reply.status, fileId, code, pins };
  };
  const store = (text) => call('/v1/storage/plain', { method: 'POST', body: text });
  const files = [await store('one'), await store('two')];
  const filler = process.env.DISK + '/filler';
  writeFileSync(filler, '');
  for (let bytes = 1_000_000; bytes >= 1;) {
    try { appendFileSync(filler, Buffer.alloc(bytes)); } catch { bytes >>= 1; }
  }
  for (let i = 0; i < 100 && !log.some((line) => line.includes('disk.full')); i += 1) await sleep(100);
  const refused = await store('three');
  const removed = await call('/v1/storage/' + files[0].fileId, { method: 'DELETE' });
  const list = await call('/v1/storage/' + files[1].fileId + '?data=false');
  rmSync(filler);
  const after = await store('three');
  await stop();
  console.log(JSON.stringify({ refused, removed, list, after }));
`;

test('on a full disk nothing is stored, files are deleted, and storing resumes with free space', async (context) => {
  const ran = await onSmallDisk(context, {
    disk: await directory(),
    mebibytes: 48,
    script: 'exec "$NODE" --disable-warning=ExperimentalWarning --input-type=module -e "$PROGRAM"',
    env: { PROGRAM: program },
  });
  expect(ran.stderr).toBe('');
  expect(JSON.parse(ran.stdout)).toMatchObject({
    refused: { status: 507, code: 'disk_full' },
    removed: { status: 200, pins: [{ service: 'local', status: 'unpinned' }] },
    list: { status: 200 },
    after: { status: 201 },
  });
});
