/** Random numbers that follow from a seed. */

/** A source of random numbers. */
export class Random {
  #state: number;

  /** @param seed any text: another one gives other numbers */
  constructor(seed: string) {
    // FNV-1a, whose bits the generator mixes further.
    let hash = 0x811c9dc5;
    for (let i = 0; i < seed.length; i += 1) hash = Math.imul(hash ^ seed.charCodeAt(i), 0x01000193);
    this.#state = hash >>> 0;
    for (let i = 0; i < 4; i += 1) this.next();
  }

  /** A number from 0 up to 1, by mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** A whole number from 0 up to `end`, exclusive. */
  below(end: number): number {
    return Math.floor(this.next() * end);
  }

  /** Tells whether something happens that happens that often. */
  chance(share: number): boolean {
    return this.next() < share;
  }

  /** One of some items. */
  pick<T>(items: readonly [T, ...T[]]): T {
    return items[this.below(items.length)] ?? items[0];
  }

  /** A number between two, each order of magnitude as often as the others. */
  spread(from: number, to: number): number {
    return Math.round(from * (to / from) ** this.next());
  }

  /** Writes random bytes. */
  draw(bytes: Uint8Array): void {
    for (let i = 0; i < bytes.length; i += 1) bytes[i] = this.below(256);
  }
}
