/**
 * `dag/import`: the blocks of CARs from a multipart body, in constant memory, each verified. All of
 * them exist once the closing boundary has arrived, or none. They are not pinned.
 */
import { isSealpinError } from '../../../shared/errors.ts';
import { carReader } from '../../../shared/ipfs/index.ts';
import { BufferPool } from '../../../shared/streams/buffer-pool.ts';
import { arrivals } from './arrivals.ts';
import { boundaryOf, MultipartError, parts, type PartEvent } from './multipart.ts';
import { isSet, lines, RpcError, type RpcCall } from './rpc.ts';
import type { Complete } from './rows.ts';
import type { Importer } from './importer.ts';
import type { Store } from './store.ts';
import { verify } from './verify.ts';

/** Kubo's records of an import. */
type Counts = { BlockCount: number; BlockBytesCount: number };

export async function dagImport(store: Store, { request, response, query }: RpcCall): Promise<void> {
  if (isSet(query, 'pin-roots', true))
    throw new RpcError('this node imports without pins: pin-roots must be false', { client: true });
  const stats = isSet(query, 'stats');
  const counts: Counts = { BlockCount: 0, BlockBytesCount: 0 };
  const importers: Importer[] = [];
  const files: Complete[] = [];
  const pool = new BufferPool();
  const events = parts(arrivals(request), boundaryOf(request.headers['content-type']));
  try {
    let event = (await events.next()).value;
    if (event?.kind !== 'part') throw new RpcError("file argument 'path' is required", { client: true });
    while (event?.kind === 'part') {
      const importer = await store.importer();
      importers.push(importer);
      event = await importCar(events, importer, counts, pool);
      const file = await importer.finish();
      if (file) files.push(file);
      else importers.pop();
    }
    await store.publish(files);
  } catch (cause) {
    await Promise.all(importers.map((importer) => importer.abort()));
    throw cause;
  } finally {
    await events.return(undefined);
  }
  lines(response, stats ? [{ Stats: counts }] : []);
}

/** Imports one CAR. Returns the event that follows it. */
async function importCar(events: AsyncGenerator<PartEvent>, importer: Importer, counts: Counts, pool: BufferPool) {
  const part = partReader(events, pool);
  const car = carReader(part);
  let last: string | undefined;
  try {
    for (let block = await car.next(); block; block = await car.next()) {
      const { bytes } = block;
      const { cid, got } = verify(block);
      if (cid === undefined) throw new RpcError('this node holds CIDv1, sha2-256, raw or dag-pb');
      if (got !== cid.text) throw new RpcError(`mismatch in content integrity, expected: ${cid.text}, got: ${got}`);
      counts.BlockCount += 1;
      counts.BlockBytesCount += bytes.length;
      await importer.write(cid, bytes, () => pool.giveBack(bytes));
      last = cid.text;
    }
  } catch (cause) {
    const why = reason(cause, part.after() !== undefined);
    if (why === undefined) throw cause;
    throw new RpcError(`import failed${last === undefined ? '' : ` after block "${last}"`}: ${why}`, { cause });
  }
  return part.after();
}

/** Reads the bytes of one part by length. `after`: the event behind them, once they have ended. */
function partReader(events: AsyncGenerator<PartEvent>, pool: BufferPool) {
  let piece: Uint8Array = new Uint8Array(0);
  let after: PartEvent | undefined;
  return {
    async read(length: number) {
      const bytes = pool.take(length);
      for (let filled = 0; filled < length;) {
        if (piece.length === 0) {
          if (after !== undefined) return bytes.subarray(0, filled);
          const { value } = (await events.next()) as { value: PartEvent | undefined };
          if (value?.kind === 'bytes') piece = value.bytes;
          else after = value;
          continue;
        }
        const taken = piece.subarray(0, length - filled);
        bytes.set(taken, filled);
        filled += taken.length;
        piece = piece.subarray(taken.length);
      }
      return bytes;
    },
    cancel: async () => undefined,
    after: () => after,
  };
}

/**
 * Explains what is wrong with a CAR, in Kubo's words if it has some; undefined for other errors.
 */
function reason(thrown: unknown, hasEnded: boolean): string | undefined {
  if (thrown instanceof MultipartError) return 'unexpected EOF';
  if (thrown instanceof RpcError || isSealpinError(thrown, 'invalid_cid')) return thrown.message;
  if (isSealpinError(thrown, 'content_mismatch')) return hasEnded ? 'unexpected EOF' : thrown.message;
  return undefined;
}
