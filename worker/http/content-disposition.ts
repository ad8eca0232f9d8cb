/** Filenames in headers (RFC 6266, RFC 8187). */
import { SealpinError } from '../../shared/errors.ts';
import { parseFilename } from '../../shared/filename.ts';

const token = String.raw`[!#$%&'*+.^_\`|~0-9A-Za-z-]+`;
const parameter = new RegExp(String.raw`;[ \t]*(${token})[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|${token})[ \t]*`, 'y');

/**
 * Parses the filename of a `Content-Disposition` header; `filename*` takes precedence over
 * `filename`.
 * @returns undefined without the header, or when it has no filename
 * @throws invalid_filename when the header is malformed, or the name is not allowed
 */
export function parseDisposition(header: string | null): string | undefined {
  if (header === null) return undefined;
  const kind = new RegExp(`^[ \\t]*${token}[ \\t]*`).exec(header);
  if (kind === null) throw unreadable();
  const found = new Map<string, string>();
  let index = kind[0].length;
  while (index < header.length) {
    parameter.lastIndex = index;
    const match = parameter.exec(header);
    if (match === null) throw unreadable();
    const [, name = '', value = ''] = match;
    if (found.has(name.toLowerCase())) throw unreadable();
    found.set(name.toLowerCase(), value);
    index = parameter.lastIndex;
  }
  const extended = found.get('filename*');
  if (extended !== undefined) return parseFilename(extendedValue(extended));
  const plain = found.get('filename');
  if (plain === undefined) return undefined;
  return parseFilename(plain.startsWith('"') ? plain.slice(1, -1).replaceAll(/\\(.)/g, '$1') : plain);
}

/** Decodes an extended value (RFC 8187 section 3.2.1), of which senders use UTF-8 only. */
function extendedValue(text: string): string {
  const encoded = /^utf-8'[^']*'((?:%[0-9A-Fa-f]{2}|[!#$&+.^_`|~0-9A-Za-z-])*)$/i.exec(text)?.[1];
  if (encoded === undefined) throw unreadable();
  try {
    return decodeURIComponent(encoded);
  } catch {
    throw unreadable();
  }
}

function unreadable(): SealpinError {
  return new SealpinError('invalid_filename', 'Content-Disposition cannot be read', {
    hint: "write: attachment; filename*=UTF-8''name, percent-encoded",
  });
}

/**
 * The `Content-Disposition` that makes a browser save the bytes under a name, in ASCII and in full
 * (RFC 6266 appendix D).
 */
export function attachment(filename: string | null): string {
  if (filename === null) return 'attachment';
  const ascii = filename.replaceAll(/[^ -~]|["\\%]/g, '_');
  const encoded = encodeURIComponent(filename).replaceAll(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`;
}
