/**
 * Intake of the blocks of an upload for an object store: leaves become objects, and the index is
 * written by the `Pin` object of the CID.
 */
import { leafBytes, type Cid } from '../../../../shared/ipfs/index.ts';
import { isSealpinError, SealpinError } from '../../../../shared/errors.ts';
import { concat } from '../../../../shared/streams/concat.ts';
import { leafMemory } from '../../../leaf-memory.ts';
import type { BlockImport, Intake, PinningService } from '../../../backends/contract.ts';
import { fixedLength } from '../../../backends/objects/fixed-length.ts';
import { indexOf, maxNodesBytes, tooManyNodes, type DataObject } from '../../../backends/objects/object-index.ts';
import type { ObjectStore } from '../../../backends/objects/store-contract.ts';
import { unwrap } from '../../result.ts';
import { WithContext } from '../../with-context.ts';
import { nameOfObjects, objectIdOf } from './object-names.ts';
import { pinOf, type PinBinding } from '../shard.ts';

/** Leaves of an object, and of the part that is one or several of them. */
const objectLeaves = 16;
/**
 * The longest wait for the store to take a leaf of a stream, and for its response to one, in ms.
 */
const stepMs = 60_000;
/** Time after which the row of an upload that lasts is given more time, in ms. */
const renewMs = 3_600_000;

export type IntakeOptions = {
  account: string;
  /** ID of the file that the upload makes. */
  uploadId: string;
  /** The most objects that this request stores. */
  numbers: number;
  /** Time for which the upload may rest, in ms. */
  forMs: number;
  /** Set if the blocks above the leaves do not follow from these. */
  isForeign?: boolean;
  /** Whether earlier requests have stored some of it. */
  isOngoing?: boolean;
  /** What they have stored, for the request that ends the upload. */
  before?: { objects: readonly DataObject[]; digests: Uint8Array } | undefined;
};

/** Intake of the blocks of an upload for a backend. */
export function intakeOf(env: PinBinding, backend: PinningService | ObjectStore, options: IntakeOptions): Intake {
  return backend.takes === 'blocks' ? backend : new ObjectIntake({ env, store: backend, options });
}

/**
 * The intake of one request of an upload. Nothing is stored before the row of its objects is
 * written.
 */
class ObjectIntake
  extends WithContext<{ env: PinBinding; store: ObjectStore; options: IntakeOptions }>
  implements Intake
{
  readonly store = this.context.store;
  readonly id = this.store.id;
  readonly verifiesImports = false;
  readonly partLeaves = objectLeaves;
  readonly #options = this.context.options;
  readonly isForeign = this.#options.isForeign ?? false;
  /** Stored parts, in the order of the data. */
  readonly objects = [...(this.#options.before?.objects ?? [])];
  readonly digests = [this.#options.before?.digests ?? new Uint8Array(0)];
  readonly lengths: number[] = [];
  readonly blocks = new Map<string, Uint8Array>();
  #nodesBytes = 0;
  #opening: Promise<{ id: string; from: number }> | undefined;
  #renewAt = 0;
  #taken = 0;

  importBlocks(signal: AbortSignal, planned = 0): BlockImport {
    return new ObjectImport(this, signal, planned);
  }

  async pin(cid: string, { bytes: size }: { bytes: number }): Promise<void> {
    const id = await objectIdOf(this.#options.uploadId);
    // What is gone by now stays so, however often it is tried.
    if (this.#options.isOngoing) await this.#open(0, true);
    const { objects, blocks, isForeign, lengths } = this;
    const leaves = { digests: concat(...this.digests), ...(isForeign && { lengths }) };
    const file = await indexOf(cid, { id, size, objects, leaves, blocks });
    await unwrap((await pinOf(this.context.env, cid)).objects.keep({ cid, service: this.id, file }));
  }

  async abandon(): Promise<void> {
    if (this.#opening === undefined && this.#options.before === undefined) return;
    const id = await objectIdOf(this.#options.uploadId);
    await unwrap((await pinOf(this.context.env, id)).objects.abandon(id));
  }

  /**
   * Keeps a block above the leaves.
   * @throws invalid_request once all of them would not fit into the index
   */
  addNode(cid: string, bytes: Uint8Array): void {
    this.#nodesBytes += bytes.length;
    if (this.#nodesBytes > maxNodesBytes) throw tooManyNodes();
    this.blocks.set(cid, bytes.slice());
  }

  /** Takes the name of the next object. */
  async next(): Promise<{ id: string; n: number }> {
    const { numbers, isOngoing = false } = this.#options;
    this.#opening ??= this.#open(numbers, isOngoing);
    const { id, from } = await this.#opening;
    if (Date.now() >= this.#renewAt) await this.#open(0, true);
    if (this.#taken === numbers) throw new SealpinError('internal', 'an upload has more objects than it announced');
    this.#taken += 1;
    return { id, n: from + this.#taken - 1 };
  }

  /** Writes the row of the objects, or lets them stay longer. */
  async #open(numbers: number, isOngoing: boolean): Promise<{ id: string; from: number }> {
    const { account, uploadId, forMs } = this.#options;
    this.#renewAt = Date.now() + renewMs;
    const id = await objectIdOf(uploadId);
    const row = { id, service: this.id, account, upload: uploadId };
    const { from } = await unwrap((await pinOf(this.context.env, id)).objects.open(row, { numbers, forMs, isOngoing }));
    return { id, from };
  }
}

type ObjectStream = { writer: WritableStreamDefaultWriter<Uint8Array>; stored: Promise<void> };

/**
 * A part: one object that is streamed, where its length is known, or several that are held whole.
 */
class ObjectImport implements BlockImport {
  readonly bytes?: number;
  readonly #intake: ObjectIntake;
  readonly #planned: number;
  readonly #stop = new AbortController();
  readonly #ended: AbortSignal;
  readonly #ns: number[] = [];
  #id = '';
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  /** Of this part alone: small arrays take many times their bytes. */
  #digests: Uint8Array[] = [];
  #stream: ObjectStream | undefined;

  constructor(intake: ObjectIntake, signal: AbortSignal, planned: number) {
    this.#intake = intake;
    this.#planned = planned;
    this.#ended = AbortSignal.any([signal, this.#stop.signal]);
    if (planned > leafBytes) this.bytes = planned;
  }

  readonly name = (): string => nameOfObjects({ id: this.#id, first: this.#ns[0] ?? 0, last: this.#ns.at(-1) ?? 0 });

  async write(cid: Cid, bytes: Uint8Array): Promise<void> {
    this.#ended.throwIfAborted();
    const { isForeign, lengths } = this.#intake;
    if (cid.codec === 'dag-pb') {
      if (isForeign) this.#intake.addNode(cid.text, bytes);
      return;
    }
    this.#digests.push(cid.digest);
    lengths.push(bytes.length);
    if (this.bytes !== undefined) return await this.#pass(bytes);
    this.#held.push(bytes);
    this.#heldBytes += bytes.length;
    // Leaves of the profile have an object each, so that a name stands for them.
    if (!isForeign || this.#heldBytes >= leafBytes) await this.#flush();
  }

  async finish(): Promise<void> {
    this.#ended.throwIfAborted();
    this.#intake.digests.push(concat(...this.#digests));
    await this.#flush();
    if (this.#stream === undefined) return;
    const { writer, stored } = this.#stream;
    await this.#step(writer.close(), stored);
    await this.#step(stored, stored);
  }

  abort(reason: unknown): void {
    this.#stop.abort(reason);
    void this.#stream?.writer.abort(reason).catch(() => undefined);
  }

  /** Takes the name of an object, which comes behind those before it whatever is stored first. */
  async #add(bytes: number): Promise<number> {
    const { id, n } = await this.#intake.next();
    this.#id = id;
    this.#ns.push(n);
    this.#intake.objects.push({ n, bytes });
    return n;
  }

  /** Stores what is held. */
  async #flush(): Promise<void> {
    if (this.#held.length === 0) return;
    const [only, ...others] = this.#held;
    const bytes = only !== undefined && others.length === 0 ? only : concat(...this.#held);
    this.#held = [];
    this.#heldBytes = 0;
    const n = await this.#add(bytes.length);
    await this.#intake.store.put(this.#id, n, bytes as Uint8Array<ArrayBuffer>, this.#ended);
    giveBack(bytes);
  }

  /** Passes the bytes of a leaf on. */
  async #pass(bytes: Uint8Array): Promise<void> {
    this.#stream ??= await this.#begin();
    await this.#step(this.#stream.writer.write(bytes), this.#stream.stored);
    giveBack(bytes);
  }

  async #begin(): Promise<ObjectStream> {
    const length = this.#planned;
    const n = await this.#add(length);
    const { readable, writable } = fixedLength(length);
    const stored = this.#intake.store.put(this.#id, n, { stream: readable, length }, this.#ended);
    // Where no step waits for it, the next one hears of it.
    stored.catch(() => undefined);
    return { writer: writable.getWriter(), stored };
  }

  /** Awaits one step of the stream; where the store refuses it, that is why. */
  async #step(work: Promise<unknown>, stored: Promise<void>): Promise<void> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const error = new SealpinError('pinning_timeout', `${this.#intake.id} made no progress for ${stepMs / 1000} s`);
    const timer = setTimeout(() => reject(error), stepMs);
    const refusal = stored.then(() => new Promise<never>(() => undefined));
    const explained = work.catch(async (cause: unknown) => {
      await stored;
      throw cause;
    });
    try {
      await Promise.race([explained, refusal, late]);
    } catch (cause) {
      this.#ended.throwIfAborted();
      // A store may say that it has an object, and hang up before it has.
      throw isSealpinError(cause)
        ? cause
        : new SealpinError('pinning_unavailable', `${this.#intake.id} broke off a request`, { cause });
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Gives memory back that holds nothing else. */
function giveBack(bytes: Uint8Array): void {
  if (bytes.buffer.byteLength === bytes.length) leafMemory.giveBack(bytes);
}
