/** A bucket of R2, as a Worker sees its binding. */
import { readWholeBody, type Behaviour } from './behaviour.ts';

type StoredObject = { bytes: Uint8Array; at: number };

export class SimulatedBucket {
  readonly behaviour: Behaviour;
  readonly objects = new Map<string, StoredObject>();
  /** The keys whose bytes were changed here. */
  readonly #damaged = new Set<string>();
  protected readonly sent: (key: string) => void;

  /** @param sent is called before an object is sent here: one that arrives late is swept up */
  constructor(behaviour: Behaviour, sent: (key: string) => void) {
    this.behaviour = behaviour;
    this.sent = sent;
  }

  /** The keys of all that it has. */
  get keys(): string[] {
    return [...this.objects.keys()];
  }

  /** Loses an object. */
  remove(key: string): void {
    this.objects.delete(key);
  }

  /** Has an object from now on. */
  protected store(key: string, bytes: Uint8Array): void {
    this.#damaged.delete(key);
    this.objects.set(key, { bytes, at: this.behaviour.scheduler.now });
  }

  /** Changes the last byte of an object. */
  damage(key: string): void {
    const { bytes = new Uint8Array(), at = 0 } = this.objects.get(key) ?? {};
    if (bytes.length === 0) return;
    this.#damaged.add(key);
    this.objects.set(key, {
      bytes: Uint8Array.from(bytes, (byte, i) => (i === bytes.length - 1 ? byte ^ 1 : byte)),
      at,
    });
  }

  /** The keys of the objects that a CID needs: its index, and those with bytes that this names. */
  keysOf(cid: string): string[] {
    const index = this.keys.find((key) => key.endsWith(`cid/${cid}`));
    const bytes = Buffer.from(this.objects.get(index ?? '')?.bytes ?? []);
    if (index === undefined || bytes.length === 0) return [];
    // docs/object-stores.md
    const folder = index.replace(/cid\/.*$/, `data/${bytes.toString('hex', 8, 24)}`);
    const named = Array.from({ length: bytes.readUInt32BE(32) }, (_, i) => ({
      n: bytes.readUInt32BE(36 + 8 * i),
      bytes: bytes.readUInt32BE(40 + 8 * i),
    }));
    const needed = named.filter((object) => object.bytes > 0);
    return [index, ...needed.map(({ n }) => `${folder}/${String(n).padStart(8, '0')}`)];
  }

  /** Tells whether it has every byte of a CID. */
  holds(cid: string): boolean {
    const keys = this.keysOf(cid);
    return keys.length > 0 && keys.every((key) => this.objects.has(key));
  }

  /** Tells whether it has every byte of a CID, as it was. */
  holdsWell(cid: string): boolean {
    return this.holds(cid) && !this.keysOf(cid).some((key) => this.#damaged.has(key));
  }

  /** The binding, for everybody. */
  binding() {
    const request = async <T>(label: string, work: () => T): Promise<T> =>
      await this.behaviour.request(label, () => {
        if (this.behaviour.meets('busy')) throw new Error(`${label}: Reduce your rate of requests. (10058)`);
        return work();
      });
    return {
      put: async (
        key: string,
        body: Uint8Array | ReadableStream<Uint8Array>,
        o?: { onlyIf?: { etagDoesNotMatch: string } },
      ) => {
        const bytes = await readWholeBody(body);
        this.sent(key);
        return await request(`put ${key}`, () => this.#put(key, bytes, o?.onlyIf !== undefined));
      },
      head: (key: string) => request(`head ${key}`, () => this.#about(key)),
      get: async (key: string, o?: { range?: { offset: number; length: number } }) => {
        const found = await request(`get ${key}`, () => this.objects.get(key)?.bytes ?? null);
        const { offset = 0, length = Infinity } = o?.range ?? {};
        return found && { size: found.length, body: this.behaviour.stream(found.subarray(offset, offset + length)) };
      },
      list: (o: { prefix: string; startAfter?: string }) => request(`list ${o.prefix}`, () => this.#list(o)),
      delete: (keys: string[]) => request(`delete ${keys.join(' ')}`, () => keys.forEach((key) => this.remove(key))),
      createMultipartUpload: () => Promise.reject(new Error('not simulated')),
    };
  }

  #put(key: string, bytes: Uint8Array, onlyNew: boolean): { key: string; size: number } | null {
    if (this.behaviour.has('full')) throw new Error(`put ${key}: the bucket takes no more (10043)`);
    if (onlyNew && this.objects.has(key)) return null;
    this.store(key, bytes);
    return { key, size: bytes.length };
  }

  #about(key: string): { key: string; size: number; uploaded: Date } | null {
    const found = this.objects.get(key);
    return found === undefined ? null : { key, size: found.bytes.length, uploaded: new Date(found.at) };
  }

  #list({ prefix, startAfter = '' }: { prefix: string; startAfter?: string }) {
    const keys = this.keys.filter((key) => key.startsWith(prefix) && key > startAfter).toSorted();
    const objects = keys.slice(0, 1000).map((key) => this.#about(key));
    return { objects, truncated: keys.length > 1000 };
  }
}
