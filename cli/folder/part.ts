/** One file or folder of an archive. */
import { createTarDecoder, type ParsedTarEntry, type TarHeader } from 'modern-tar';
import { SealpinError } from '../../shared/errors.ts';
import { cancelQuietly } from '../../shared/streams/cancel-quietly.ts';
import { namesOf, shortName, UnsafePath } from './archive-path.ts';
import { PassingHeaders } from './passing-headers.ts';

/** The names on the way to a part of an archive, as `--path` has them. @throws usage */
export function parsePart(path: string): readonly string[] {
  try {
    const names = namesOf(path);
    if (names.length > 0) return names;
  } catch (error) {
    if (!(error instanceof UnsafePath)) throw error;
  }
  throw new SealpinError('usage', '--path is no path in a folder', { hint: 'write it as in the folder: plans/a.pdf' });
}

/**
 * The entries of a tar archive. Of a part only that, with names relative to it: a file has an empty
 * one.
 * @throws not_found at the end when there is no such part, archive_invalid for a kind of entry that
 * no other than its writer reads, and for another name of a file that is not in the part
 */
export async function* entriesIn(
  archive: ReadableStream<Uint8Array>,
  part: readonly string[] = [],
): AsyncGenerator<ParsedTarEntry, void, undefined> {
  let isFound = part.length === 0;
  const headers = new PassingHeaders();
  const passing = new TransformStream<Uint8Array, Uint8Array>({
    transform: (chunk, to) => to.enqueue(headers.pass(chunk)),
  });
  for await (const { header, body } of archive.pipeThrough(passing).pipeThrough(createTarDecoder({ strict: true }))) {
    const { unknown, seconds } = headers.next();
    refuseUnknown(header, unknown);
    if (seconds !== undefined && header.pax?.['mtime'] === undefined) header.mtime = new Date(seconds * 1000);
    const rest = below(part, header.name);
    if (rest === undefined) {
      await cancelQuietly(body);
      continue;
    }
    isFound = true;
    const { type, linkname } = header;
    // A hard link names another entry from the top of the archive.
    const isName = type === 'link' && linkname !== undefined && rest !== '';
    const target = isName ? below(part, linkname) : linkname;
    if (isName && target === undefined) {
      const what = `${shortName(header.name)} is another name of ${shortName(linkname)}`;
      throw new SealpinError('archive_invalid', `${what}, which is outside of ${part.join('/')}`, {
        hint: 'extract all of the folder, without --path',
      });
    }
    yield { header: { ...header, name: rest, ...(target === undefined ? {} : { linkname: target }) }, body };
  }
  if (!isFound)
    throw new SealpinError('not_found', `there is no ${part.join('/')} in the folder`, {
      hint: 'what is in it: sealpin decrypt <blob_id> - | tar -t',
    });
}

/** Says of what other kind a part is than the command writes. @param header of its first entry */
export function wrongKind(part: readonly string[], { name, type, linkname = '' }: TarHeader): SealpinError {
  const [what, hint] = ((): [string, string] => {
    if (name !== '' || type === 'directory') return ['a folder', 'make the folder of it with --extract'];
    if (type === 'file') return ['a file', 'leave --extract out, and name the file to write'];
    if (type === 'symlink') return ['a link', 'name what it leads to'];
    if (type === 'link') return ['another name of a file before it', `name that one: --path ${shortName(linkname)}`];
    return ['neither a file, a folder nor a link', 'name another part of the folder'];
  })();
  return new SealpinError('usage', `${part.join('/')} is ${what}`, { hint });
}

/** @throws archive_invalid for an entry whose content is not that of the file that it stands for */
function refuseUnknown({ name, pax = {} }: TarHeader, flag: string | undefined): void {
  const isSparse = flag === 'S' || Object.keys(pax).some((key) => key.startsWith('GNU.sparse.'));
  if (!isSparse && flag === undefined) return;
  const why = isSparse ? 'it is a sparse file, which is not supported' : `it is of the unknown type ${flag}`;
  throw new SealpinError('archive_invalid', `${shortName(name)} in the archive is not extracted: ${why}`, {
    hint: 'what other programs make of the archive: sealpin decrypt <blob_id> - | tar -x',
  });
}

/** The path below a part; undefined for what is elsewhere. */
function below(part: readonly string[], path: string): string | undefined {
  if (part.length === 0) return path;
  const names = path.split('/').filter((name) => name !== '' && name !== '.');
  // macOS writes é as one character or as two, whichever is typed.
  const isBelow = part.every((name, index) => names[index]?.normalize('NFC') === name.normalize('NFC'));
  return isBelow ? names.slice(part.length).join('/') : undefined;
}
