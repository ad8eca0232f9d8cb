/** The ASCII armor of age (C2SP age.md, "ASCII armor"), read strictly and never written. */
import { SealpinError } from '../errors.ts';
import { decodePadded, fromUtf8 } from './bytes.ts';
import { sliceStream } from './payload/span.ts';
import { armorBegin, leadingSpace, sniffBytes } from './sniff.ts';
import { ByteSource } from '../streams/byte-source.ts';
import { pulled } from '../streams/pulled.ts';
import type { RandomAccess } from './types.ts';

const endLine = '-----END AGE ENCRYPTED FILE-----';
const armorColumns = 64;
/** Bytes of white space behind the last line that are too many; age has the same limit. */
const tooMuchSpaceBytes = 1024;
/** Number of decoded bytes that go out at once. */
const pieceBytes = 64 * 1024;

function invalidArmor(detail: string): SealpinError {
  return new SealpinError('header_invalid', detail);
}

/** Decodes armor; the stream errors with `header_invalid` unless it is in its one valid form. */
export function dearmor(source: ByteSource): ReadableStream<Uint8Array> {
  let isBegun = false;
  let isShort = false;
  let isOver = false;
  return pulled({
    async next() {
      if (isOver) return undefined;
      if (!isBegun) await skipBegin(source);
      isBegun = true;
      let text = '';
      while (!isOver && text.length < (pieceBytes / 3) * 4) {
        const line = await nextLine(source);
        isOver = line === endLine;
        if (isOver) break;
        if (isShort || line.length === 0 || line.length > armorColumns)
          throw invalidArmor('a line of the armor has the wrong length');
        isShort = line.length < armorColumns || line.endsWith('=');
        text += line;
      }
      const bytes = decodePadded(text);
      if (bytes === undefined) throw invalidArmor('the armor has base64 that is not canonical');
      if (isOver) await checkEnd(source);
      return bytes;
    },
    cancel: (reason) => source.cancel(reason),
    ahead: 1,
  });
}

/** Decoded bytes of a whole line. */
const lineBytes = (armorColumns / 4) * 3;
/** Lines that are decoded at once. */
const pieceLines = Math.floor(pieceBytes / lineBytes);

/**
 * Reads armor from any offset, where its lines are all of one length: so where each begins is
 * known.
 * @returns undefined where they are not, or its ends are unusual; that may also show later, when
 * what is read is not base64, or not the container
 */
export async function evenArmor(stored: RandomAccess): Promise<RandomAccess | undefined> {
  const textAt = async (from: number, to: number): Promise<string> => {
    const source = new ByteSource(await stored.read(from, to - from));
    await source.fill(to - from);
    return fromUtf8(source.take(source.length));
  };
  const head = await textAt(0, Math.min(stored.bytes, sniffBytes + 2));
  const [begin, lineEnd = ''] = new RegExp(`^[\\t-\\r ]*${armorBegin}(\\r?\\n)`).exec(head) ?? [];
  if (begin === undefined) return undefined;
  const tailFrom = Math.max(begin.length - lineEnd.length, stored.bytes - sniffBytes);
  const [, padding = '', end] =
    new RegExp(`(={0,2})${lineEnd}(${endLine}(?:${lineEnd}[\\t-\\r ]{0,900})?)$`).exec(
      await textAt(tailFrom, stored.bytes),
    ) ?? [];
  if (end === undefined) return undefined;
  const columns = armorColumns + lineEnd.length;
  const textBytes = stored.bytes - end.length - begin.length;
  const characters = textBytes - Math.ceil(textBytes / columns) * lineEnd.length;
  if (characters % 4 !== 0 || textBytes % columns === lineEnd.length) return undefined;
  return {
    bytes: (characters / 4) * 3 - padding.length,
    async read(offset, length) {
      const first = Math.floor(offset / lineBytes);
      const last = Math.ceil((offset + length) / lineBytes);
      const from = first * columns;
      const to = Math.min(last * columns, textBytes);
      const source = new ByteSource(await stored.read(begin.length + from, to - from));
      let skip = offset - first * lineBytes;
      let left = length;
      return pulled({
        async next() {
          if (left === 0) return undefined;
          await source.fill(pieceLines * columns);
          const lines = fromUtf8(source.take(Math.min(pieceLines * columns, source.length))).split(lineEnd);
          const isEven = lines.slice(0, -2).every((line) => line.length === armorColumns);
          const decoded = isEven ? decodePadded(lines.join(''))?.subarray(skip, skip + left) : undefined;
          if (decoded === undefined || decoded.length === 0)
            throw invalidArmor('the armor has base64 that is not canonical');
          skip = 0;
          left -= decoded.length;
          return decoded;
        },
        cancel: (reason) => source.cancel(reason),
        ahead: 1,
      });
    },
  };
}

/**
 * Reads armor from any offset by decoding all that comes before it, whatever its lines are.
 * @throws as `dearmor`
 */
export async function unevenArmor(stored: RandomAccess): Promise<RandomAccess> {
  const all = async () => dearmor(new ByteSource(await stored.read(0, stored.bytes)));
  const reader = (await all()).getReader();
  let bytes = 0;
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) bytes += piece.value.length;
  return { bytes, read: async (offset, length) => sliceStream(await all(), offset, length) };
}

async function skipBegin(source: ByteSource): Promise<void> {
  source.take(leadingSpace(source.peek(sniffBytes)));
  if ((await nextLine(source)) !== armorBegin) throw invalidArmor('the first line of the armor is malformed');
}

async function nextLine(source: ByteSource): Promise<string> {
  const line = await source.line(armorColumns + 64, 'a line of the armor is too long');
  // The last line needs no line feed.
  const text = fromUtf8(line ?? source.take(Math.min(source.length, armorColumns))).replace(/\r$/, '');
  if (line === undefined && text !== endLine) throw invalidArmor('the armor ends early');
  return text;
}

async function checkEnd(source: ByteSource): Promise<void> {
  await source.fill(tooMuchSpaceBytes);
  const { length } = source;
  if (!/^\p{White_Space}*$/u.test(fromUtf8(source.take(Math.min(length, tooMuchSpaceBytes)))))
    throw invalidArmor('the armor has something after its end');
  if (length >= tooMuchSpaceBytes) throw invalidArmor('the armor has too much white space after its end');
}
