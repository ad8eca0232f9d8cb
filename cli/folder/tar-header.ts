/**
 * Headers of a tar archive: ustar, and before it an extended one for what has no room there or
 * would be read in another way (POSIX.1-2024, pax).
 */

/** A header and what the content of a file is padded to. */
export const blockBytes = 512;

/** Of names and targets, in bytes. */
const longestName = 100;
/** Eleven octal digits. */
const largestNumber = 8 ** 11 - 1;

export type TarEntry = {
  readonly type: 'file' | 'directory' | 'symlink';
  readonly path: string;
  /** Of a symbolic link. */
  readonly target: string;
  readonly mode: number;
  readonly bytes: number;
  /** Since 1970, or negative. */
  readonly seconds: number;
};

/** The blocks before the content of an entry. Owners are left out. */
export function tarHeader(entry: TarEntry): Uint8Array {
  const { path, target, bytes, seconds } = entry;
  const extra = {
    // What begins a field is taken for the mark of an encoding there, but not in an extended
    // header.
    path: isPlain(path) ? undefined : path,
    linkpath: isPlain(target) ? undefined : target,
    size: bytes > largestNumber ? bytes : undefined,
    mtime: seconds > largestNumber || seconds < 0 ? seconds : undefined,
  };
  const texts = Object.entries(extra).flatMap(([key, value]) =>
    value === undefined ? [] : record(`${key}=${value}\n`),
  );
  const type = { file: '0', directory: '5', symlink: '2' }[entry.type];
  const header = ustar(type, entry);
  if (texts.length === 0) return header;
  const extended = Buffer.from(texts.join(''));
  const padding = Buffer.alloc(padded(extended.length) - extended.length);
  const before = { path: `PaxHeader/${path}`, target: '', mode: 0o644, bytes: extended.length, seconds };
  return Buffer.concat([ustar('x', before), extended, padding, header]);
}

/** Tells whether bytes begin as the archive of a folder does, which has the folder itself first. */
export function beginsAsFolder(bytes: Uint8Array): boolean {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
  return text.startsWith('./\0') && text.startsWith('5', 156) && text.startsWith('ustar', 257);
}

/** The bytes of content with what fills its last block. */
export function padded(bytes: number): number {
  return Math.ceil(bytes / blockBytes) * blockBytes;
}

function isPlain(text: string): boolean {
  return Buffer.byteLength(text) <= longestName && !text.includes('\uFEFF');
}

/** A record of an extended header, which begins with its own length in bytes. */
function record(text: string): string {
  const bytes = Buffer.byteLength(text) + 1;
  const length = bytes + String(bytes + String(bytes).length).length;
  return `${length} ${text}`;
}

function ustar(type: string, { path, target, mode, bytes, seconds }: Omit<TarEntry, 'type'>): Buffer {
  const block = Buffer.alloc(blockBytes);
  // A field of digits ends with a NUL.
  const octal = (value: number, at: number, digits: number): void => {
    let rest = Math.max(0, Math.min(value, largestNumber));
    for (let digit = at + digits - 1; digit >= at; digit -= 1) {
      block[digit] = 0x30 + (rest % 8);
      rest = Math.floor(rest / 8);
    }
  };
  block.write(path, 0, longestName);
  octal(mode, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  octal(bytes, 124, 11);
  octal(seconds, 136, 11);
  block.write(`        ${type}`, 148, 'latin1');
  if (target !== '') block.write(target, 157, longestName);
  block.write('ustar\x0000', 257, 'latin1');
  let sum = 0;
  for (let at = 0; at < blockBytes; at += 1) sum += block[at] ?? 0;
  octal(sum, 148, 6);
  block[154] = 0;
  return block;
}
