/** One source, asked block after block. What it gives is not verified here. */
import { SealpinError } from '../errors.ts';
import { byteReader, type ByteReader } from '../streams/reader.ts';
import { carReader, type CarBlock, type CarReader } from './car-reader.ts';
import { bytesOfCid, type Cid } from './cid.ts';
import type { BlockSource } from './file.ts';
import type { Want } from './walk.ts';

export interface Feed {
  take(want: Want, signal: AbortSignal): Promise<Uint8Array>;
  /** Lets go of an open stream; the next `take` opens another. */
  close(reason?: unknown): Promise<void>;
}

/** The best way to get blocks of a file from a source: as a CAR, as bytes of the file beside single blocks, or as single blocks. */
export function feed(root: Cid, end: number | undefined, source: BlockSource): Feed {
  const { car, read } = source;
  if (car) return carFeed((start, signal) => car.call(source, root.text, start, end, signal));
  if (read) return readFeed((want, signal) => read.call(source, root.text, want.start, want.run, signal), source);
  return { take: (want, signal) => source.block(want.cid.text, signal), close: async () => undefined };
}

/** Leaves come from one request for many of them, interior nodes one by one. */
function readFeed(
  open: (want: Want, signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>,
  source: BlockSource,
): Feed {
  let reader: ByteReader | undefined;
  let position = 0;
  let left = 0;

  async function close(reason?: unknown): Promise<void> {
    const closing = reader;
    reader = undefined;
    await closing?.cancel(reason);
  }

  return {
    async take(want, signal) {
      if (want.fileBytes === undefined || want.run === 0) return source.block(want.cid.text, signal);
      if (!reader || want.start !== position || want.fileBytes > left) {
        await close();
        reader = byteReader(await open(want, signal));
        position = want.start;
        left = want.run;
      }
      const bytes = await reader.read(want.fileBytes);
      if (bytes.length < want.fileBytes) throw new SealpinError('pinning_failed', 'its stream ended early');
      position += bytes.length;
      left -= bytes.length;
      if (left === 0) await close();
      return bytes;
    },
    close,
  };
}

/** Blocks that are not wanted: the path to a range, or what a gateway sends that does not know ranges. */
const slackBytes = 16_777_216;

/** Leaves that are remembered: a CAR without duplicates has the same leaf once, also where the file has it often. */
const remembered = 4;

/** All blocks come from CARs that begin with the root and go depth first. */
function carFeed(open: (start: number, signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>): Feed {
  let reader: CarReader | undefined;
  let ahead: CarBlock | undefined;
  let recent: CarBlock[] = [];
  let position = 0;
  let skippable = 0;

  async function close(reason?: unknown): Promise<void> {
    const closing = reader;
    reader = undefined;
    ahead = undefined;
    recent = [];
    await closing?.cancel(reason);
  }

  return {
    async take(want, signal) {
      if (!reader || want.start !== position) {
        await close();
        reader = carReader(await open(want.start, signal));
        position = want.start;
        skippable = want.start + slackBytes;
      }
      const cid = bytesOfCid(want.cid);
      const wanted = (block: CarBlock) => sameBytes(block.cid, cid);
      for (;;) {
        const block = ahead ?? (await reader.next());
        ahead = undefined;
        const found = block && wanted(block) ? block : recent.find(wanted);
        if (found !== block) ahead = block;
        if (found) {
          if (want.fileBytes !== undefined) position += want.fileBytes;
          if (found === block) recent = [found, ...recent].slice(0, remembered);
          return found.bytes;
        }
        if (!block) throw new SealpinError('content_mismatch', `the CAR ends without ${want.cid.text}`);
        ahead = undefined;
        skippable -= block.bytes.length;
        if (skippable < 0)
          throw new SealpinError('content_mismatch', `the CAR has other blocks instead of ${want.cid.text}`);
      }
    },
    close,
  };
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}
