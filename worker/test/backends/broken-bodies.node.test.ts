/** Answers that are whole, and whose bodies, which nobody reads, break off. */
import { globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { pinata } from '../../backends/pinata/pinata.ts';
import { tusUpload } from '../../backends/pinata/tus-upload.ts';
import { psa } from '../../backends/psa/psa.ts';

const { signal } = new AbortController();
const cid = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e';
const common = { id: 'tested', url: 'http://a.test', headers: {}, pinName: 'sealpin:tested' };

function broken(status: number, headers: Record<string, string> = {}): Response {
  const body = new ReadableStream({ start: (controller) => controller.error(new Error('connection reset')) });
  return new Response(body, { status, headers });
}

/** A backend that lists a file until it is removed. */
function listing(listed: (isThere: boolean) => unknown): typeof fetch {
  let isThere = true;
  return async (_input, init) => {
    if (init?.method === 'GET') return Response.json(listed(isThere));
    isThere = false;
    return broken(200);
  };
}

const pins = listing((isThere) => ({
  count: Number(isThere),
  results: isThere ? [{ requestid: '1', status: 'pinned', created: '', pin: { cid, name: common.pinName } }] : [],
}));
const files = listing((isThere) => ({
  data: { files: isThere ? [{ id: '1', cid, name: `sealpin:tested:${cid}` }] : [] },
}));

test('a removal and an upload are done although the body of the answer breaks off', async () => {
  expect(await psa({ ...common, fetch: pins, origins: [] }).unpin(cid, signal)).toBe('removed');
  expect(await pinata({ ...common, fetch: files, uploads: 'http://a.test' }).unpin(cid, signal)).toBe('removed');
  const taken: typeof fetch = async (_input, init) =>
    init?.method === 'POST' ? broken(201, { location: 'http://a.test/1' }) : broken(200, { 'upload-offset': '5' });
  const options = { ...common, fetch: taken, pieceBytes: 100, responseMs: 1000 };
  const file = { body: new Blob(['bytes']).stream(), length: 5, metadata: {} };
  await expect(tusUpload(options, file, signal)).resolves.toBeUndefined();
});

/** Cancels of what another stream was made of: who cancels that one learns of a failure. */
const passedOn = ['upload-body.ts', 'counted-body.ts', 'byte-source.ts', 'cancel-quietly.ts'];

test('nothing waits for a cancel that can fail', () => {
  const sources = globSync('{worker,client,shared,cli,deploy,web}/**/*.ts', { exclude: (path) => path === 'test' });
  expect(sources.length).toBeGreaterThan(300);
  const others = sources.filter((path) => !passedOn.some((name) => path.endsWith(`/${name}`)));
  const waits = /await [\w.?#]+\.cancel\([^()]*\)(?!\.catch)/;
  expect(others.filter((path) => waits.test(readFileSync(path, 'utf8')))).toEqual([]);
});
