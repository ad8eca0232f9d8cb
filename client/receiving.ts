/** Receiving what a link leads to (docs/links.md). */
import { openAt, openAtWithFileKey, type OpenedAt, type RandomAccess } from '../shared/crypto/index.ts';
import { OpenedShare } from '../shared/api.ts';
import { SealpinError } from '../shared/errors.ts';
import type { IpfsFile } from '../shared/ipfs/index.ts';
import { openParcel, parseLink, type Link } from '../shared/link/index.ts';
import { openBlob, rangeIn, type Range } from './blobs.ts';
import { identitiesOf, type With } from './credentials.ts';
import { serviceHttp } from './service-http.ts';
import { abortable, contentOf, type Content } from './web-bytes.ts';

/** A file that was passed on. Of a blob link nothing but the bytes is known: no name, type and size. */
export type ReceivedFile = {
  /** The sender's words, safe as a filename. */
  readonly name?: string;
  /** The media type, as the sender says. */
  readonly type?: string;
  /** Bytes of the file, which reading it confirms. */
  readonly size?: number;
  /** Its blob ID. */
  readonly cid: string;
  /**
   * Fetches and opens the file, or a part of it. Each call fetches again; one for a part reads the blocks that it needs.
   * @throws what `fetchBlob` and `open` throw; `range_not_satisfiable`, `parcel_invalid` when the file has not the size that the sender
   *   says
   */
  open(range?: Range & { signal?: AbortSignal }): Promise<Content & { readonly size: number }>;
};

/** What a link leads to. `note` and `from` are the sender's own words, which prove nothing. */
export type Received = { readonly note?: string; readonly from?: string; readonly files: readonly ReceivedFile[] };

export type ReceiveOptions = {
  /** The sender's password, or for a blob link without a file key, the password of the container. */
  readonly password?: string;
  /** Private keys, for a blob link without a file key. */
  readonly keys?: string | readonly string[];
  /** The URLs of services or gateways to fetch from, in order of preference; the service of the link when undefined. */
  readonly from?: string | readonly string[];
  readonly signal?: AbortSignal;
};

/**
 * Receives what a link of a service leads to. Of a share that counts as one of its opens, at once: a wrong password has used it up, too.
 * @param link as it came, also where a mail program has changed it
 * @throws SealpinError `link_invalid` (also for the link of an inbox), `unsupported_version`, `wrong_kind` when a password or key is
 *   needed, `decrypt_failed` for a wrong password, `password_invalid`, `key_invalid`, `parcel_invalid`, `not_found` and `gone` for a
 *   share that there is not, or not any more, `service_unreachable`, `service_answer`
 * @example
 * const { files } = await receive('https://sealpin.example/b#bafkrei….…');
 * for (const file of files) await save(await (await file.open()).blob(file.type));
 */
export async function receive(link: string, o: ReceiveOptions = {}): Promise<Received> {
  const { link: parsed } = parseLink(link);
  const from = o.from ?? parsed.service;
  if (parsed.kind === 'inbox')
    throw new SealpinError('link_invalid', 'The link is one for sending files, not for receiving them', {
      reason: 'not_a_link',
      hint: 'ask its sender for the link of the files',
    });
  if (parsed.kind === 'share') {
    const { files, ...words } = await openParcel(await recordOf(parsed, o), {
      secret: parsed.secret,
      password: o.password,
    });
    return { ...words, files: files.map(({ fileKey, ...file }) => receivedFile(file, { with: { fileKey }, from })) };
  }
  return { files: [receivedFile({ cid: parsed.cid }, { with: credentialsOf(parsed, o), from })] };
}

/**
 * The record of a share, which the service hands out so often, and counts.
 * @throws SealpinError `not_found` and `gone` for a share that there is not, or not any more, `service_unreachable`, `service_answer`
 */
export async function recordOf(
  { service, id }: Extract<Link, { kind: 'share' }>,
  { signal }: { readonly signal?: AbortSignal | undefined } = {},
): Promise<Uint8Array> {
  const path = `v1/shares/${id}/open`;
  const { record } = await serviceHttp({ service }).json(OpenedShare, { method: 'POST', path, signal });
  return Uint8Array.from(atob(record), (character) => character.charCodeAt(0));
}

/** What opens the blob of a link. */
function credentialsOf({ fileKey }: Extract<Link, { kind: 'blob' }>, { password, keys }: ReceiveOptions): With {
  if (fileKey !== undefined) return { fileKey };
  if (password !== undefined) return { password };
  if (keys !== undefined) return { keys };
  throw new SealpinError('wrong_kind', 'The link has no key: it needs a password, or a private key');
}

/** A file that can be fetched and opened. @param o.from the URLs of services or gateways, in order of preference */
export function receivedFile(
  file: Omit<ReceivedFile, 'open'>,
  o: { readonly with: With; readonly from: string | readonly string[] },
): ReceivedFile {
  return {
    ...file,
    async open({ start, end, signal } = {}) {
      const stop = new AbortController();
      const blob = await openBlob(file.cid, o.from, AbortSignal.any(signal ? [signal, stop.signal] : [stop.signal]));
      try {
        const opened = await openStored(accessTo(blob), o.with);
        if (file.size !== undefined && file.size !== opened.plaintextBytes)
          throw new SealpinError('parcel_invalid', 'The file has another size than its sender says');
        const range = rangeIn(opened.plaintextBytes, { start, end });
        const stream = abortable(await opened.decryptRange(range), signal);
        return { ...contentOf(stream, undefined), size: range.end - range.start };
      } catch (error) {
        stop.abort(error);
        throw error;
      }
    },
  };
}

function openStored(stored: RandomAccess, credentials: With): Promise<OpenedAt> {
  return 'fileKey' in credentials
    ? openAtWithFileKey(stored, credentials)
    : openAt(stored, { identities: identitiesOf(credentials) });
}

function accessTo(file: IpfsFile): RandomAccess {
  return { bytes: file.size, read: async (offset, length) => file.read(offset, offset + length) };
}
