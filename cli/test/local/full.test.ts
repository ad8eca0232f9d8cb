/**
 * The local service, and a public one, with their log on a disk that another program fills to the
 * last byte.
 */
import { expect } from 'vitest';
import { inCi, long } from '../../../testkit/long-run.ts';
import { entry } from '../../../testkit/programs/command-line.ts';
import { onSmallDisk } from '../../../testkit/small-disk.ts';
import { directory } from '../node/node-harness.ts';

const program = `
  import { spawn } from 'node:child_process';
  import { once } from 'node:events';
  import { mkdirSync, openSync, readFileSync, rmSync, statSync, writeFileSync, appendFileSync } from 'node:fs';
  import { request } from 'node:http';
  import { json, text } from 'node:stream/consumers';
  import { setTimeout as sleep } from 'node:timers/promises';
  const dataDir = process.env.DISK + '/home';
  mkdirSync(dataDir);
  const front = process.env.ORIGIN || undefined;
  const words = ['start', '--port=0', '--json', '--data-dir=' + dataDir, ...(front ? ['--origin=' + front] : [])];
  const log = openSync(process.env.DISK + '/log', 'a');
  const service = spawn(process.execPath, [process.env.ENTRY, ...words], { stdio: ['ignore', 'pipe', log] });
  const ended = once(service, 'close');
  const [line] = await once(service.stdout, 'data');
  const { url, port = new URL(url).port, keyFile } = JSON.parse(line);
  let { apiKey: key } = JSON.parse(readFileSync(keyFile, 'utf8'));
  const ask = async (method, path, body, headers = {}) => {
    const sent = request({ port, method, path, agent: false, headers: {
      host: new URL(url).host, authorization: 'Bearer ' + key,
      ...(body && { 'content-length': String(body.length) }), ...headers,
    } });
    sent.end(body);
    const reply = await new Promise((resolve, reject) => sent.once('response', resolve).once('error', reject));
    const type = reply.headers['content-type'] ?? '';
    const told = type.endsWith('json') && method !== 'HEAD' ? await json(reply) : await text(reply).then(() => ({}));
    const { fileId, code, pins, apiKey, services } = told;
    const { location, 'upload-offset': offset } = reply.headers;
    return { status: reply.statusCode, fileId, code, pins, apiKey, location, offset, services };
  };
  const asOperator = () => { key = JSON.parse(readFileSync(dataDir + '/local/secrets.json', 'utf8')).adminToken; };
  const account = async () => {
    asOperator();
    const made = await ask('POST', '/v1/operator/accounts', '{"label":"ann"}', { 'content-type': 'application/json' });
    return made;
  };
  if (front) key = (await account()).apiKey;
  const owner = key;
  const store = (text) => ask('POST', '/v1/storage/plain', text);
  // A large one goes past the runtime.
  const large = (mebibytes) => store(Buffer.alloc(mebibytes * 1048576, 7));
  const tus = { 'tus-resumable': '1.0.0' };
  const patch = (path, from, text) => ask('PATCH', path, text, {
    ...tus, 'upload-offset': String(from), 'content-type': 'application/offset+octet-stream',
  });
  const filler = process.env.DISK + '/filler';
  const fill = () => {
    writeFileSync(filler, '', { flag: 'a' });
    for (let bytes = 1_000_000; bytes >= 1;) {
      try { appendFileSync(filler, Buffer.alloc(bytes)); } catch { bytes >>= 1; }
    }
  };
  const isReleased = () => statSync(dataDir + '/local/reserve').size === 0;
  fill();
  while (!isReleased()) await sleep(100);
  // Another program takes what the service has kept for itself as well.
  fill();
  const refusedFirst = await store('zero');
  asOperator();
  let health = await ask('GET', '/v1/health');
  // What it said before counts for 5 s.
  for (let i = 0; i < 100 && !health.services?.[0].refuses; i += 1)
    health = await sleep(100).then(() => ask('GET', '/v1/health'));
  key = owner;
  rmSync(filler);
  while (isReleased()) await sleep(100);
  const overfull = await large(64);
  const files = [await store('one'), await store('two')];
  const begun = await ask('POST', '/v1/uploads/plain', undefined, {
    ...tus, 'upload-length': '6', 'upload-metadata': 'filename bg==',
  });
  await patch(begun.location, 0, 'abc');
  const wide = Buffer.alloc(2 * 1048576, 9);
  const begunLarge = await ask('POST', '/v1/uploads/plain', undefined, {
    ...tus, 'upload-length': String(wide.length), 'upload-metadata': 'filename bg==',
  });
  fill();
  // What it asks for until then finds no room.
  for (let i = 0; i < 100 && !isReleased(); i += 1) {
    await ask('HEAD', begun.location, undefined, tus);
    await sleep(100);
  }
  const refused = await store('three');
  const refusedLarge = await large(2);
  const refusedPatch = await patch(begunLarge.location, 0, wide);
  const read = await ask('GET', '/v1/storage/' + files[1].fileId + '/content');
  const upload = await ask('HEAD', begun.location, undefined, tus);
  const rest = await patch(begun.location, 3, 'def');
  const removed = await ask('DELETE', '/v1/storage/' + files[0].fileId);
  const list = await ask('GET', '/v1/storage/' + files[1].fileId + '?data=false');
  const anybody = front && await account();
  key = owner;
  rmSync(filler);
  const after = await store('three');
  const afterLarge = await large(2);
  const afterPatch = await patch(begunLarge.location, 0, wide);
  const at = await ask('HEAD', begun.location, undefined, tus);
  const complete = at.offset === '6' ? at : await patch(begun.location, 3, 'def');
  service.kill('SIGTERM');
  const [exit] = await ended;
  console.log(JSON.stringify({
    refusedFirst, health, overfull, refused, refusedLarge, refusedPatch, afterLarge, afterPatch, read, upload, rest,
    removed, list, anybody, after, complete, exit,
  }));
`;

inCi.each(long ? ['', 'https://files.example.com'] : ['https://files.example.com'])(
  'on a full disk nothing is stored, files are read and deleted, and storing resumes with free space (%j)',
  async (origin, context) => {
    const ran = await onSmallDisk(context as never, {
      disk: await directory(),
      mebibytes: 48,
      script: 'exec "$NODE" --disable-warning=ExperimentalWarning --input-type=module -e "$PROGRAM"',
      env: { PROGRAM: program, ORIGIN: origin, ENTRY: entry },
    });
    expect(ran.stderr).toBe('');
    expect(JSON.parse(ran.stdout)).toMatchObject({
      refusedFirst: { status: 507, code: 'disk_full' },
      health: { services: [{ status: 'ok', refuses: { code: 'disk_full' } }] },
      overfull: { status: 507, code: 'disk_full' },
      refused: { status: 507, code: 'disk_full' },
      refusedLarge: { status: 507, code: 'disk_full' },
      refusedPatch: { status: 507, code: 'disk_full' },
      read: { status: 200 },
      upload: { status: 200, offset: '3' },
      removed: { status: 200, pins: [{ service: 'local', status: 'unpinned' }] },
      list: { status: 200 },
      // Room is kept for what the service writes itself.
      ...(origin !== '' && { anybody: { status: 201 } }),
      rest: { status: 204 },
      after: { status: 201 },
      afterLarge: { status: 201 },
      afterPatch: { status: 204, offset: '2097152' },
      complete: { offset: '6' },
      exit: 0,
    });
  },
);
