/** What takes the blocks of an upload for an object store: leaves become objects, and the index is written by the `Pin` object of the CID. */
import { leafBytes, type Cid } from '../../../../shared/ipfs/index.ts';
import { SealpinError } from '../../../../shared/errors.ts';
import { concat } from '../../../../shared/streams/concat.ts';
import { leafMemory } from '../../../leaf-memory.ts';
import type { BlockImport, Intake, PinningService } from '../../../backends/contract.ts';
import { fixedLength } from '../../../backends/objects/fixed-length.ts';
import { indexOf, type DataObject } from '../../../backends/objects/object-index.ts';
import type { ObjectStore } from '../../../backends/objects/store-contract.ts';
import { unwrap } from '../../result.ts';
import { nameOfObjects, objectIdOf } from './object-names.ts';
import { pinOf, type PinBinding } from '../shard.ts';

/** Leaves of an object, and of the part that is one or several of them. */
const objectLeaves = 16;
/** The longest wait for the store to take a leaf of a stream, and for its response to one, in ms. */
const stepMs = 60_000;

export type IntakeOptions = {
  account: string;
  /** ID of the file that the upload makes. */
  uploadId: string;
  /** The most objects that this request stores. */
  numbers: number;
  /** Time until which the upload may rest, in ms. */
  forMs: number;
  /** Set if the blocks above the leaves do not follow from these. */
  isForeign?: boolean;
  /** What earlier requests have stored. */
  before?: { objects: readonly DataObject[]; digests: Uint8Array } | undefined;
};

/** What takes the blocks of an upload for a backend. */
export function intakeOf(env: PinBinding, backend: PinningService | ObjectStore, o: IntakeOptions): Intake {
  return backend.takes === 'blocks' ? backend : objectIntake(env, backend, o);
}

/** Makes an intake for one request of an upload. Nothing is stored before the row of its objects is written. */
function objectIntake(env: PinBinding, store: ObjectStore, o: IntakeOptions): Intake {
  const { account, uploadId, numbers, forMs, isForeign = false, before } = o;
  const objects: DataObject[] = [...(before?.objects ?? [])];
  const digests: Uint8Array[] = [before?.digests ?? new Uint8Array(0)];
  const lengths: number[] = [];
  const blocks = new Map<string, Uint8Array>();
  let opening: Promise<{ id: string; from: number }> | undefined;
  let taken = 0;

  async function open(): Promise<{ id: string; from: number }> {
    const id = await objectIdOf(uploadId);
    const row = { id, service: store.id, account, upload: uploadId };
    const { from } = await unwrap((await pinOf(env, id)).objects.open(row, { numbers, forMs }));
    return { id, from };
  }

  /** The name of the next object. */
  async function next(): Promise<{ id: string; n: number }> {
    const { id, from } = await (opening ??= open());
    if (taken === numbers) throw new SealpinError('internal', 'an upload has more objects than it announced');
    taken += 1;
    return { id, n: from + taken - 1 };
  }

  function importBlocks(signal: AbortSignal, planned = 0): BlockImport {
    const stop = new AbortController();
    const ended = AbortSignal.any([signal, stop.signal]);
    const ns: number[] = [];
    let id = '';
    let held: Uint8Array[] = [];
    let heldBytes = 0;
    let stream: { writer: WritableStreamDefaultWriter<Uint8Array>; stored: Promise<void> } | undefined;

    /** Awaits one step of the stream; where the store refuses it, that is why. */
    async function step(work: Promise<unknown>, stored: Promise<void>): Promise<void> {
      const { promise: late, reject } = Promise.withResolvers<never>();
      const error = new SealpinError('pinning_timeout', `${store.id} made no progress for ${stepMs / 1000} s`);
      const timer = setTimeout(() => reject(error), stepMs);
      const refusal = stored.then(() => new Promise<never>(() => undefined));
      try {
        await Promise.race([
          work.catch(async (cause: unknown) => (await stored, Promise.reject(cause))),
          refusal,
          late,
        ]);
      } catch (cause) {
        ended.throwIfAborted();
        throw cause;
      } finally {
        clearTimeout(timer);
      }
    }

    /** Stores what is held. */
    async function flush(): Promise<void> {
      if (held.length === 0) return;
      const name = await next();
      ({ id } = name);
      ns.push(name.n);
      const [only, ...others] = held;
      const bytes = only !== undefined && others.length === 0 ? only : concat(...held);
      // Before it is stored: what the next part has comes behind it.
      objects.push({ n: name.n, bytes: bytes.length });
      held = [];
      heldBytes = 0;
      await store.put(id, name.n, bytes as Uint8Array<ArrayBuffer>, ended);
      giveBack(bytes);
    }

    async function begin() {
      const name = await next();
      ({ id } = name);
      ns.push(name.n);
      const { readable, writable } = fixedLength(planned);
      const stored = store.put(id, name.n, { stream: readable, length: planned }, ended);
      // Where no step waits for it, the next one hears of it.
      stored.catch(() => undefined);
      objects.push({ n: name.n, bytes: planned });
      return { writer: writable.getWriter(), stored };
    }

    /** Takes the bytes of a leaf. */
    async function take(bytes: Uint8Array): Promise<void> {
      if (planned <= leafBytes) {
        held.push(bytes);
        heldBytes += bytes.length;
        // Leaves of the profile have an object each, so that a name stands for them.
        if (!isForeign || heldBytes >= leafBytes) await flush();
        return;
      }
      stream ??= await begin();
      await step(stream.writer.write(bytes), stream.stored);
      giveBack(bytes);
    }

    return {
      async write(cid: Cid, bytes: Uint8Array) {
        ended.throwIfAborted();
        if (cid.codec === 'dag-pb') {
          if (isForeign) blocks.set(cid.text, bytes.slice());
          return;
        }
        digests.push(cid.digest);
        lengths.push(bytes.length);
        await take(bytes);
      },
      async finish() {
        ended.throwIfAborted();
        await flush();
        if (stream === undefined) return;
        await step(stream.writer.close(), stream.stored);
        await stream.stored;
      },
      abort(reason) {
        stop.abort(reason);
        void stream?.writer.abort(reason).catch(() => undefined);
      },
      ...(planned > leafBytes && { bytes: planned }),
      name: () => nameOfObjects({ id, first: ns[0] ?? 0, last: ns.at(-1) ?? 0 }),
    };
  }

  return {
    id: store.id,
    verifiesImports: false,
    partLeaves: objectLeaves,
    importBlocks,
    async pin(cid, { bytes: size }) {
      const id = await objectIdOf(uploadId);
      const leaves = { digests: concat(...digests), ...(isForeign && { lengths }) };
      const file = await indexOf(cid, { id, size, objects, leaves, blocks });
      await unwrap((await pinOf(env, cid)).objects.keep({ cid, service: store.id, file }));
    },
    async abandon() {
      if (opening === undefined && before === undefined) return;
      const id = await objectIdOf(uploadId);
      await unwrap((await pinOf(env, id)).objects.abandon(id));
    },
  };
}

/** Gives memory back that holds nothing else. */
function giveBack(bytes: Uint8Array): void {
  if (bytes.buffer.byteLength === bytes.length) leafMemory.giveBack(bytes);
}
