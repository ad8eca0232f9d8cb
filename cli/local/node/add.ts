/**
 * `add`: files from a multipart body, in constant memory, which exist once all of it has arrived.
 */
import { addOptions } from '../../../shared/ipfs/index.ts';
import { arrivals } from './arrivals.ts';
import { boundaryOf, parts } from './multipart.ts';
import { isSet, lines, RpcError, type RpcCall } from './rpc.ts';
import type { Written } from './indexer.ts';
import type { Writer } from './writer.ts';
import type { Store } from './store.ts';

/**
 * Every option of Kubo's `add` that changes the CID, with the one value that the profile allows.
 */
const requiredOptions = {
  ...addOptions,
  inline: 'false',
  'wrap-with-directory': 'false',
  'preserve-mode': 'false',
  'preserve-mtime': 'false',
  nocopy: 'false',
};

/** Kubo's own limit on names of pins, in bytes. */
const nameBytes = 255;

export async function addFile(store: Store, { request, response, query }: RpcCall): Promise<void> {
  for (const [name, value] of Object.entries(requiredOptions)) {
    const given = query.get(name);
    if (given !== null && given !== value)
      throw new RpcError(`this node stores unixfs-v1-2025 only: ${name} must be ${value}`, { client: true });
  }
  const name = query.get('pin-name') ?? '';
  const pin = isSet(query, 'pin', true);
  const keep = !isSet(query, 'only-hash');
  if (name !== '' && !pin) throw new RpcError('pin-name option requires pin to be set', { client: true });
  if (Buffer.byteLength(name) > nameBytes)
    throw new RpcError(`pin name is longer than ${nameBytes} bytes`, { client: true });

  const writers: Writer[] = [];
  const files: { name: string; written: Written }[] = [];
  let current: { name: string; writer: Writer } | undefined;
  try {
    for await (const event of parts(arrivals(request), boundaryOf(request.headers['content-type']))) {
      if (event.kind === 'bytes') {
        await current?.writer.write(event.bytes);
        continue;
      }
      if (current) files.push({ name: current.name, written: await current.writer.finish() });
      current = undefined;
      if (event.kind === 'part') {
        if (/^application\/(x-directory|symlink)$/.test(event.type))
          throw new RpcError('this node stores files only', { client: true });
        current = { name: event.filename, writer: await store.writer({ keep }) };
        writers.push(current.writer);
      }
    }
    if (files.length === 0) throw new RpcError('argument "path" is required', { client: true });
    const written = files.map((file) => file.written);
    if (keep) await store.publish(written, pin ? { name } : undefined);
  } catch (cause) {
    await Promise.all(writers.map((writer) => writer.abort()));
    throw cause;
  }
  const records = files.map(({ name, written: { cid, dagBytes } }) => {
    return { Name: name || cid, Hash: cid, Size: String(dagBytes) };
  });
  lines(response, records);
}
