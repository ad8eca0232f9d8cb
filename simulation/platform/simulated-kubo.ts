/** A Kubo behind its RPC, as the adapter uses it, over blocks in memory. */
import { EventEmitter } from 'node:events';
import type { Direct } from '../../cli/local/front/handover.ts';
import { streamOf } from '../../shared/crypto/bytes.ts';
import { carOf, carReader, cidFromBytes, cidOf, linksOf, openFile, parseCid } from '../../shared/ipfs/index.ts';
import { sha256, type BlockSource } from '../../shared/ipfs/index.ts';
import { readWholeBody, sentWithin, type Behaviour } from './behaviour.ts';

/** Answer of a Kubo to a command: bytes, an object in JSON, or an error with a message. */
type KuboAnswer = { bytes: Uint8Array } | { json: object } | { message: string };

export class SimulatedKubo {
  readonly behaviour: Behaviour;
  readonly #pinned: (cid: string) => void;
  /** Blocks by CID, and names of recursive pins by CID. */
  readonly blocks = new Map<string, Uint8Array>();
  readonly pins = new Map<string, string>();
  /** Tells of each CID that is pinned. */
  readonly pinning = new EventEmitter().setMaxListeners(0);
  /** Blocks whose bytes were changed here. */
  readonly #damaged = new Set<string>();

  /** @param pinned is called before a CID is pinned */
  constructor(behaviour: Behaviour, pinned: (cid: string) => void) {
    this.behaviour = behaviour;
    this.#pinned = pinned;
  }

  /** The `fetch` of its address. */
  async fetch(url: URL, { body, signal }: RequestInit): Promise<Response> {
    const { behaviour } = this;
    signal?.throwIfAborted();
    const sent = await sentWithin(body as ReadableStream<Uint8Array> | null | undefined, signal);
    const command = url.pathname.replace('/api/v0/', '');
    const label = `${command} ${url.searchParams.get('arg') ?? ''}`;
    const work = () => this.#do(command, url.searchParams, sent);
    const answer = await behaviour.request(label, work, signal);
    if (answer === 'busy') return new Response('busy', { status: 503, headers: { 'Retry-After': '3' } });
    if ('bytes' in answer) return new Response(behaviour.stream(answer.bytes, signal) as BodyInit);
    if ('message' in answer) return Response.json({ Message: answer.message, Code: 0, Type: 'error' }, { status: 500 });
    return Response.json(answer.json);
  }

  /** Gives bytes of a file, verified. @throws if it lacks them, or its disk fails */
  async *bytesOf({ cid, from, to }: Parameters<Direct['bytesOf']>[0]): AsyncGenerator<Uint8Array> {
    yield* this.#read((await openFile(cid, [this.#itself])).read(from, to + 1));
  }

  /** Gives a CAR of bytes of a file, whose leaves its reader verifies. @throws as `bytesOf` */
  async *carOf({ cid, ...entityBytes }: Parameters<Direct['carOf']>[0]): AsyncGenerator<Uint8Array> {
    yield* this.#read(carOf(cid, [this.#itself], { entityBytes, passLeaves: true }));
  }

  /** Tells whether a pin of ours keeps a CID, and every block below it is there. */
  async holds(cid: string): Promise<boolean> {
    const isPinned = [...this.pins.keys()].some((pin) => pin === cid || this.rootOf(pin) === cid);
    return isPinned && this.#missingBelow(cid) === undefined;
  }

  /** Tells whether it has every block of a CID, as it was. */
  async holdsWell(cid: string): Promise<boolean> {
    if (!(await this.holds(cid))) return false;
    for (const each of this.#below([cid])) {
      const { codec, text } = parseCid(each);
      if (cidOf(codec, await sha256(this.blocks.get(each) ?? new Uint8Array())).text !== text) return false;
    }
    return true;
  }

  /** Loses a pin, and the first block below it. */
  lose(cid: string): void {
    this.pins.delete(cid);
    this.blocks.delete(cid);
  }

  /** Changes a byte of a leaf below a CID. */
  damage(cid: string): void {
    const leaf = [...this.#below([cid])].findLast((each) => parseCid(each).codec === 'raw');
    const bytes = this.blocks.get(leaf ?? '')?.slice();
    if (leaf === undefined || bytes === undefined || bytes.length === 0) return;
    bytes[0] = (bytes[0] ?? 0) ^ 1;
    this.blocks.set(leaf, bytes);
    this.#damaged.add(leaf);
  }

  /** Removes what no pin keeps. */
  collect(): void {
    const kept = this.#below(this.pins.keys());
    for (const cid of this.blocks.keys()) if (!kept.has(cid)) this.blocks.delete(cid);
  }

  /** The root that an anchor is made for; of any other pin the CID itself. */
  rootOf(pin: string): string {
    const block = this.blocks.get(pin);
    if (block === undefined || parseCid(pin).codec === 'raw') return pin;
    const [only, ...others] = linksOf(block);
    const isAnchor = only !== undefined && others.length === 0 && Buffer.from(block).includes('sealpin:');
    return isAnchor ? only.text : pin;
  }

  async *#read(bytes: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of bytes) {
      if (this.behaviour.meets('cuts')) throw new Error('the disk does not answer');
      yield piece;
    }
  }

  /** Its blocks, as it has them. */
  get #itself(): BlockSource {
    const block = async (cid: string): Promise<Uint8Array> => {
      const bytes = this.blocks.get(cid);
      if (bytes === undefined) throw new Error(`could not find ${cid}`);
      return bytes;
    };
    return { id: 'itself', block };
  }

  async #do(command: string, query: URLSearchParams, body: Uint8Array): Promise<KuboAnswer | 'busy'> {
    const { behaviour } = this;
    if (behaviour.meets('busy')) return 'busy';
    const arg = query.get('arg') ?? '';
    const block = this.blocks.get(arg);
    const missing = { message: `block was not found locally (offline): ipld: could not find ${arg}` };
    switch (command) {
      case 'version':
        return { json: { Version: '0.43.1' } };
      case 'dag/import':
        return await this.#import(body);
      case 'pin/add':
        return this.#pin(arg, query.get('name') ?? '');
      case 'pin/ls': {
        const name = this.pins.get(arg);
        if (name === undefined) return { message: `path '${arg}' is not pinned` };
        return { json: { Keys: { [arg]: { Type: 'recursive', Name: name } } } };
      }
      case 'pin/rm':
        return this.#unpin(arg);
      case 'block/get':
        return block === undefined ? missing : { bytes: behaviour.honest(block) };
      case 'block/stat':
        return block === undefined ? missing : { json: { Key: arg, Size: block.length } };
      case 'block/rm':
        this.blocks.delete(arg);
        return { json: { Hash: arg } };
      case 'dag/stat': {
        const lacking = this.#missingBelow(arg);
        return lacking === undefined ? { json: {} } : { message: `ipld: could not find ${lacking}` };
      }
      case 'cat':
        return await this.#cat(arg, Number(query.get('offset')), Number(query.get('length')));
      default:
        throw new Error(`the simulated Kubo has no ${command}`);
    }
  }

  async #import(multipart: Uint8Array): Promise<KuboAnswer> {
    if (this.behaviour.has('full')) return { message: 'write blocks.log: no space left on device' };
    const text = Buffer.from(multipart);
    const start = text.indexOf('\r\n\r\n') + 4;
    const end = text.lastIndexOf('\r\n--');
    const car = carReader(streamOf(multipart.slice(start, end)));
    await car.header();
    let count = 0;
    for (let next = await car.next(); next !== undefined; next = await car.next()) {
      const cid = cidFromBytes(next.cid);
      if (cid === undefined || cidOf(cid.codec, await sha256(next.bytes)).text !== cid.text)
        return { message: 'mismatch in content integrity' };
      if (!this.blocks.has(cid.text)) this.blocks.set(cid.text, next.bytes.slice());
      count += 1;
    }
    return { json: { Stats: { BlockCount: count } } };
  }

  #pin(cid: string, name: string): KuboAnswer {
    const missing = this.#missingBelow(cid);
    if (missing !== undefined) return { message: `pin: ipld: could not find ${missing}` };
    this.#pinned(this.rootOf(cid));
    this.pins.set(cid, name);
    this.pinning.emit(cid);
    return { json: { Pins: [cid] } };
  }

  async #cat(cid: string, offset: number, length: number): Promise<KuboAnswer> {
    const missing = this.#missingBelow(cid);
    if (missing !== undefined) return { message: `ipld: could not find ${missing}` };
    try {
      const file = await openFile(cid, [this.#itself]);
      return { bytes: await readWholeBody(file.read(offset, Math.min(offset + length, file.size))) };
    } catch {
      // A damaged block: Kubo does not hash what it reads, and sends something else.
      return { bytes: new Uint8Array(length) };
    }
  }

  /** Removes a pin, and what is damaged: else nobody would have what is stored there next. */
  #unpin(cid: string): KuboAnswer {
    if (!this.pins.delete(cid)) return { message: 'not pinned or pinned indirectly' };
    const kept = this.#below(this.#damaged.size > 0 ? this.pins.keys() : []);
    for (const each of this.#damaged) if (!kept.has(each)) this.blocks.delete(each);
    return { json: { Pins: [cid] } };
  }

  #missingBelow(cid: string): string | undefined {
    return [...this.#below([cid])].find((each) => !this.blocks.has(each));
  }

  /** The CIDs of roots, and of what is below them. */
  #below(roots: Iterable<string>): Set<string> {
    const found = new Set<string>();
    const walk = (cid: string): void => {
      if (found.has(cid)) return;
      found.add(cid);
      const block = this.blocks.get(cid);
      if (block === undefined || parseCid(cid).codec === 'raw') return;
      for (const link of linksOf(block)) walk(link.text);
    };
    for (const root of roots) walk(root);
    return found;
  }
}
