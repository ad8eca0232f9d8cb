import { mkdir, rename, rm, truncate, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { type BlockSource, cidBuilder, leafBytes, openFile } from '../../../shared/ipfs/index.ts';
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { BufferPool } from '../../../shared/streams/buffer-pool.ts';
import { localFiles } from '../../fetch/local-files.ts';
import { localPaths } from '../../local/state.ts';
import { itemOf } from '../../../testkit/present.ts';
import { contextIn, temporaryDirectory } from '../environment.ts';
import { hostile, json } from '../hostile.ts';

const bytes = Buffer.alloc(3 * leafBytes + 5, Buffer.from(Array.from({ length: 251 }, (_, index) => index)));
const name = `${'0a'.repeat(16)}.car`;
/** The bytes lie in two files, the second after three others. */
const second = 'b0'.repeat(16);
const places = [
  [name, 3, leafBytes + 7],
  [second, 0, bytes.length - leafBytes - 7],
] as const;
/** An answer of the service to who asks for places. */
type Answer = (request: IncomingMessage, response: ServerResponse) => unknown;

/** A data directory with the bytes, and its service, which gives the root alone. */
async function filesWith(answer: Answer = (_, response) => json(response, 200, places)) {
  const directory = await temporaryDirectory();
  const data = join(localPaths(directory).ipfs, 'data');
  await mkdir(data, { recursive: true });
  await writeFile(join(data, name), Buffer.concat([Buffer.from('abc'), bytes.subarray(0, leafBytes + 7)]));
  await writeFile(join(data, second), bytes.subarray(leafBytes + 7));
  const nodes = new Map<string, Uint8Array>();
  const builder = cidBuilder({ onNode: (cid, node) => void nodes.set(cid, node) });
  await builder.write(bytes);
  const { cid } = await builder.finish();
  const { url, seen } = await hostile({ 'GET /ipfs/': answer });
  const service: BlockSource = { id: 'service', block: async (wanted) => nodes.get(wanted) ?? new Uint8Array() };
  const source = localFiles(new URL(url), service, contextIn(directory));
  /** Gives whole leaves, as the service does by a socket. */
  const other: BlockSource = {
    id: 'other',
    block: service.block.bind(service),
    read: async (_cid, offset, length) => new Blob([bytes.subarray(offset, offset + length)]).stream(),
  };
  const read = async (sources = [source]): Promise<Buffer> =>
    buffer((await openFile(cid, sources, { pool: new BufferPool() })).read());
  return { data, seen, source, other, read };
}

test('leaves come from the disk, wherever they lie there, in one request', async () => {
  const { read, seen } = await filesWith();
  expect((await read()).equals(bytes)).toBe(true);
  expect(seen).toHaveLength(1);
  expect(itemOf(seen, 0).headers).toMatchObject({ 'sealpin-places': '1' });
});

test('a file of one leaf comes from the disk, too, and only the whole of it', async () => {
  const { data, source } = await filesWith((_, response) => json(response, 200, [[second, 0, 7]]));
  await writeFile(join(data, second), 'one leaf');
  const builder = cidBuilder();
  await builder.write(Buffer.from('one lea'));
  const { cid } = await builder.finish();
  expect(await buffer((await openFile(cid, [source])).read())).toEqual(Buffer.from('one lea'));
  await writeFile(join(data, second), 'one');
  await expect(openFile(cid, [source])).rejects.toMatchObject({ code: 'content_mismatch' });
});

test('a file that has not lost its suffix yet is found', async () => {
  const { read, data } = await filesWith();
  await rename(join(data, name), join(data, `${name}.part`));
  expect((await read()).equals(bytes)).toBe(true);
});

const damages: Record<string, (data: string) => Promise<void>> = {
  'has other bytes': (data) => writeFile(join(data, second), bytes.subarray(leafBytes + 8)),
  'is cut off': (data) => truncate(join(data, second), leafBytes),
  'is missing': (data) => rm(join(data, name)),
};
const lies: Record<string, Answer> = {
  'names a file outside': (_, response) => json(response, 200, [[`../data/${name}`, 3, leafBytes + 7], places[1]]),
  'names too few bytes': (_, response) => json(response, 200, [places[0]]),
  'names no places': (_, response) => json(response, 200, { name }),
  'says what is no JSON': (_, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('['),
  'gives a CAR': (_, response) => response.writeHead(200, { 'content-type': 'application/vnd.ipld.car' }).end('x'),
  refuses: (_, response) => response.writeHead(503).end(),
};

describe('a file of the local service is not read, and comes from the next source, where', () => {
  const cases: [string, Answer | undefined, ((data: string) => Promise<void>) | undefined][] = [
    ...Object.entries(damages).map(([how, damage]) => [`it ${how}`, undefined, damage] as never),
    ...Object.entries(lies).map(([how, answer]) => [`the service ${how}`, answer, undefined] as never),
  ];
  test.each(cases)('%s', async (_, answer, damage) => {
    const { read, source, other, data } = await filesWith(answer);
    await damage?.(data);
    const failure: unknown = await read().catch((error: unknown) => error);
    expect(isSealpinError(failure)).toBe(true);
    expect((await read([source, other])).equals(bytes)).toBe(true);
    const refusal = new SealpinError('not_found', 'gone');
    const gone: BlockSource = { id: 'service', block: () => Promise.reject(refusal) };
    const reported: unknown = await read([source, gone]).catch((error: unknown) => error);
    const isWrong = isSealpinError(failure, 'content_mismatch');
    if (!isWrong) expect(reported).toMatchObject({ code: 'not_found', message: 'service: gone' });
  });
});
