/** `add`: files from a multipart body, in constant memory; all of them exist once the closing boundary has come, or none. */
import { boundaryOf, parts } from './multipart.ts';
import { flag, lines, RpcError, type Call } from './rpc.ts';
import type { Store, Writer, Written } from './store.ts';

/** Options that change the CID, each with the one value that `unixfs-v1-2025` gives it (IPIP-499). */
const profile = {
  'cid-version': '1',
  'raw-leaves': 'true',
  chunker: 'size-1048576',
  'max-file-links': '1024',
  hash: 'sha2-256',
  trickle: 'false',
  inline: 'false',
  'wrap-with-directory': 'false',
  'preserve-mode': 'false',
  'preserve-mtime': 'false',
  nocopy: 'false',
};

/** Kubo's own limit on names of pins, in bytes. */
const nameBytes = 255;

/** Takes files in. */
export async function add(store: Store, { request, response, query }: Call): Promise<void> {
  for (const [name, value] of Object.entries(profile)) {
    const asked = query.get(name);
    if (asked !== null && asked !== value)
      throw new RpcError(`this node stores unixfs-v1-2025 only: ${name} must be ${value}`, { client: true });
  }
  const name = query.get('pin-name') ?? '';
  const pin = flag(query, 'pin', true);
  const keep = !flag(query, 'only-hash');
  if (name !== '' && !pin) throw new RpcError('pin-name option requires pin to be set', { client: true });
  if (Buffer.byteLength(name) > nameBytes)
    throw new RpcError(`pin name is longer than ${nameBytes} bytes`, { client: true });

  const files: { name: string; writer: Writer; written?: Written }[] = [];
  let current: (typeof files)[number] | undefined;
  try {
    // What is left of a refused body is not ours to end: the answer still has to go out on the same connection.
    for await (const event of parts(
      request.iterator({ destroyOnReturn: false }),
      boundaryOf(request.headers['content-type']),
    )) {
      if (event.kind === 'bytes') {
        await current?.writer.write(event.bytes);
        continue;
      }
      if (current) current.written = await current.writer.finish();
      if (event.kind === 'part') {
        if (/^application\/(x-directory|symlink)$/.test(event.type))
          throw new RpcError('this node stores files only', { client: true });
        current = { name: event.filename, writer: await store.writer({ keep }) };
        files.push(current);
      }
    }
    if (files.length === 0) throw new RpcError('argument "path" is required', { client: true });
    if (keep)
      await store.publish(
        files.map((file) => file.written!),
        { pin: pin ? { name } : undefined },
      );
  } catch (cause) {
    await Promise.all(files.map((file) => file.writer.abort()));
    throw cause;
  }
  lines(
    response,
    files.map(({ name, written }) => ({
      Name: name || written!.cid,
      Hash: written!.cid,
      Size: String(written!.dagBytes),
    })),
  );
}
