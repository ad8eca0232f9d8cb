/** Digests in HTTP fields (RFC 9530), sent and wanted. */
import { SealpinError } from '../../shared/errors.ts';
import { equalBytes } from '../../shared/streams/equal-bytes.ts';

/**
 * Bytes of a digest by its algorithm, as section 7.2 names them; its other algorithms are
 * deprecated or no protection.
 */
const lengths = { 'sha-256': 32, 'sha-512': 64 } as const;

/** An algorithm that is computed here. */
export type Algorithm = keyof typeof lengths;
type Field = 'Content-Digest' | 'Repr-Digest' | 'Want-Repr-Digest';
export type Digests = ReadonlyMap<Algorithm, Uint8Array>;

/** A member of a dictionary (RFC 9651 section 3.2); its parameters mean nothing here. */
const member =
  /^([a-z*][a-z0-9_.*-]*)=(:[A-Za-z0-9+/]*={0,2}:|\d{1,15})(?:; *[a-z*][a-z0-9_.*-]*(?:="[^"\\]*"|=[!#-+.-:<-~]+)?)*$/;

/**
 * Parses `Content-Digest` and `Repr-Digest`, which are the same for a body without a content
 * coding. Algorithms that are not computed here are ignored (section 2).
 * @throws invalid_request for a value that cannot be read, or whose digest has another length than
 * its algorithm; digest_mismatch where the two differ
 */
export function parseDigests(headers: Headers): Digests {
  const digests = new Map<Algorithm, Uint8Array>();
  for (const field of ['Content-Digest', 'Repr-Digest'] as const)
    for (const [name, value] of membersOf(field, headers.get(field) ?? '', ':')) {
      const bytes = decode(value.slice(1, -1));
      if (bytes === undefined) throw malformed(field);
      if (!isAlgorithm(name)) continue;
      if (bytes.length !== lengths[name])
        throw new SealpinError('invalid_request', `${field}: ${name} has ${lengths[name]} bytes`);
      const other = digests.get(name);
      if (other !== undefined && !equalBytes(other, bytes))
        throw new SealpinError('digest_mismatch', `Content-Digest and Repr-Digest have another ${name} each`);
      digests.set(name, bytes);
    }
  return digests;
}

/**
 * Parses `Want-Repr-Digest`.
 * @returns the algorithm that the client prefers; undefined if it wants none that is
 * computed here
 * @throws invalid_request
 */
export function parseWanted(header: string | undefined): Algorithm | undefined {
  let best: { name: Algorithm; preference: number } | undefined;
  for (const [name, value] of membersOf('Want-Repr-Digest', header, '')) {
    const preference = Number(value);
    if (!(preference <= 10)) throw malformed('Want-Repr-Digest');
    if (isAlgorithm(name) && preference > (best?.preference ?? 0)) best = { name, preference };
  }
  return best?.name;
}

/** A digest as the value of a field. */
export function digestField(algorithm: Algorithm, digest: Uint8Array): string {
  return `${algorithm}=:${digest.toBase64()}:`;
}

/**
 * The members of a dictionary, of which the last one of a name counts.
 * @param start of each value
 */
function membersOf(field: Field, header = '', start: string): Map<string, string> {
  const members = new Map<string, string>();
  for (const part of header.trim() === '' ? [] : header.split(',')) {
    const [, name, value] = member.exec(part.trim()) ?? [];
    if (name === undefined || value === undefined || value.startsWith(':') !== (start === ':')) throw malformed(field);
    members.set(name, value);
  }
  return members;
}

function isAlgorithm(name: string): name is Algorithm {
  return Object.hasOwn(lengths, name);
}

function decode(base64: string): Uint8Array | undefined {
  try {
    return Uint8Array.fromBase64(base64);
  } catch {
    return undefined;
  }
}

function malformed(field: Field): SealpinError {
  const example = field === 'Want-Repr-Digest' ? 'sha-256=10, from 0 to 10' : 'sha-256=:…:, with the digest in base64';
  return new SealpinError('invalid_request', `${field} cannot be read`, { hint: `write: ${example}` });
}
