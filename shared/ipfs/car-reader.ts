/** CARv1 (https://ipld.io/specs/transport/car/carv1/) as a stream of blocks, not verified. */
import { SealpinError } from '../errors.ts';
import type { BufferPool } from '../streams/buffer-pool.ts';
import { byteReader, type ByteReader } from '../streams/reader.ts';
import { cidBytes } from './cid.ts';
import { maxBlockBytes } from './profile.ts';

/**
 * `cid` is binary: the first 36 bytes of the section. They are a whole CID only if it is of a kind
 * that Sealpin accepts. `offset`: where the bytes begin in the CAR.
 */
export type CarBlock = { cid: Uint8Array; bytes: Uint8Array; offset: number };

/** The blocks of a CAR, one after the other. */
export type CarReader = ReturnType<typeof carReader>;

/** A CAR that cannot be read. `isCutOff`: it ends too early, as where a connection breaks. */
export class CarError extends SealpinError {
  readonly isCutOff: boolean;
  constructor(detail: string, { isCutOff = false } = {}) {
    super('content_mismatch', detail);
    this.isCutOff = isCutOff;
  }
}

/** A header with one root has 59 bytes. */
const maxCarHeaderBytes = 65_536;

/**
 * CBOR of `"version": 1` (RFC 8949): a text string of 7 bytes, then 1. In a CARv2 pragma it is 2.
 */
const versionOne = [0x67, 0x76, 0x65, 0x72, 0x73, 0x69, 0x6f, 0x6e, 0x01];

/**
 * Reads a CAR. The roots in its header are ignored: the caller knows what it needs, or reads the
 * header.
 * @param source a stream, or who reads one by length
 * @param pool where the memory of the blocks of a stream comes from
 * @param onBytes as of `byteReader`, for a stream
 */
export function carReader(
  source: ReadableStream<Uint8Array> | ByteReader,
  pool?: BufferPool,
  onBytes?: (bytes: number) => void,
) {
  const reader = 'read' in source ? source : byteReader(source, pool, onBytes);
  let opened: Promise<Uint8Array> | undefined;
  let position = 0;

  async function readHeader(): Promise<Uint8Array> {
    let length = 0;
    for (let shift = 0; ; shift += 7) {
      const [byte = 0] = await exactly(reader, 1);
      position += 1;
      length |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
      if (shift >= 14) throw invalid('its header has no length');
    }
    if (length > maxCarHeaderBytes) throw invalid('its header is too large');
    const bytes = await exactly(reader, length);
    position += length;
    if (!bytes.join().includes(versionOne.join())) throw invalid('it is not a CARv1');
    return bytes;
  }

  const header = (): Promise<Uint8Array> => (opened ??= readHeader());

  return {
    /** The header without its length, in DAG-CBOR. @throws as `next` */
    header,
    /** The next block, one call at a time; undefined at the end. @throws CarError */
    async next(): Promise<CarBlock | undefined> {
      await header();
      // A section is a length of at most 4 bytes, a CID of 36 and the block: 37 bytes are always
      // there.
      const front = await reader.read(1 + cidBytes);
      if (front.length === 0) return undefined;
      const { length, lengthBytes } = sectionLength(front);
      if (front.length < 1 + cidBytes) throw cutOff();
      if (length < cidBytes || length > cidBytes + maxBlockBytes) throw invalid(`a section of ${length} bytes`);
      const begun = front.subarray(lengthBytes);
      const rest = await exactly(reader, length - begun.length);
      const cid = new Uint8Array(cidBytes);
      cid.set(begun);
      cid.set(rest.subarray(0, cidBytes - begun.length), begun.length);
      const offset = position + lengthBytes + cidBytes;
      position += lengthBytes + length;
      return { cid, bytes: rest.subarray(cidBytes - begun.length), offset };
    },
    cancel: (reason?: unknown): Promise<void> => reader.cancel(reason),
  };
}

/**
 * The length of a section: an unsigned varint (github.com/multiformats/unsigned-varint) of at most
 * 4 bytes.
 */
function sectionLength(front: Uint8Array): { length: number; lengthBytes: number } {
  let length = 0;
  for (const [index, byte] of front.subarray(0, 4).entries()) {
    length |= (byte & 0x7f) << (7 * index);
    if (byte < 0x80) return { length, lengthBytes: index + 1 };
  }
  throw front.length < 4 ? cutOff() : invalid('a section has no length');
}

async function exactly(reader: ByteReader, length: number): Promise<Uint8Array> {
  const bytes = await reader.read(length);
  if (bytes.length < length) throw cutOff();
  return bytes;
}

function invalid(detail: string, o?: { isCutOff: true }): CarError {
  return new CarError(`the CAR cannot be read: ${detail}`, o);
}

function cutOff(): CarError {
  return invalid('it is cut off', { isCutOff: true });
}
