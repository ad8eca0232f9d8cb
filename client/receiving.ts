/** Receiving what a link leads to (docs/links.md). */
import {
  openAt,
  openAtWithFileKey,
  passwordIdentity,
  type CryptoProvider,
  type Identity,
} from '../shared/crypto/index.ts';
import { OpenedShare, ShareStatus } from '../shared/api.ts';
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import { sleep, withStop } from '../shared/streams/timing.ts';
import type { BufferPool } from '../shared/streams/buffer-pool.ts';
import { openParcel, parseLinkOf, type Link, type Parcel, type ParcelSignature } from '../shared/link/index.ts';
import { secondsUntilAgain } from './attempts.ts';
import { accessTo, openBlob, rangeIn, type Range } from './blobs.ts';
import { identitiesOf, type With } from './credentials.ts';
import { serviceHttp, type Fetch, type ServiceHttp } from './service-http.ts';
import { abortable, bytesOfBase64, contentOf, type Content } from './web-bytes.ts';

/**
 * A file that was passed on. Of a blob link nothing but the bytes is known: no name, type and size.
 */
export type ReceivedFile = {
  /** The sender's words, safe as a filename. */
  readonly name?: string | undefined;
  /** The media type, as the sender says. */
  readonly type?: string | undefined;
  /** Bytes of the file, which reading it confirms. */
  readonly size?: number | undefined;
  /** Time of its last change, as the sender says. */
  readonly modified?: Date | undefined;
  /** Its blob ID. */
  readonly cid: string;
  /**
   * Fetches and opens the file, or a part of it. Each call fetches again; one for a part reads the
   * blocks that it needs.
   * @throws what `fetchBlob` and `open` throw; `range_not_satisfiable`, `parcel_invalid` when the
   * file has not the size that the sender says
   */
  open(range?: Range & { signal?: AbortSignal | undefined }): Promise<Content & { readonly size: number }>;
};

/** Contents of a link. `note` and `from` are the sender's own words, which prove nothing. */
export type Received = {
  readonly note?: string | undefined;
  readonly from?: string | undefined;
  /** Its signer, and whether the signature is right; undefined: it is not signed. */
  readonly signed?: ParcelSignature | undefined;
  readonly files: readonly ReceivedFile[];
};

/**
 * A password, or a function that asks for one: `failed` says how many were wrong so far, and
 * undefined gives up.
 */
export type AskedPassword = string | ((failed: number) => Promise<string | undefined>);

export type ReceiveOptions = {
  /**
   * The sender's password, or for a blob link without a file key, the password of the container.
   */
  readonly password?: AskedPassword | undefined;
  /**
   * Private keys, for a share that was sent to keys only, or for a blob link without a file key.
   */
  readonly keys?: string | readonly string[] | undefined;
  /**
   * The URLs of services or gateways to fetch from, in order of preference; the service of the link
   * when undefined.
   */
  readonly from?: string | readonly string[] | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Instead of the global `fetch`, also for what `open` of the files asks for. */
  readonly fetch?: Fetch | undefined;
};

/**
 * Receives what a link of a service leads to. Of a share that counts as one of its opens. A share
 * that needs a password is not opened without one, and one that has none not with one: a function
 * as password is not asked then. When a password is wrong, it is asked again, for the same open.
 * @param link as it came, also where a mail program has changed it
 * @throws SealpinError `link_invalid` (also for the link of an inbox), `unsupported_version`,
 * `wrong_kind` when a password or key is needed, `decrypt_failed` for a wrong one,
 * `password_invalid`, `key_invalid`, `parcel_invalid`, `not_found` and `gone` for a share that
 * there is not, or not any more, `service_unreachable`, `service_answer`
 * @example
 * const { files } = await receive('https://sealpin.example/s#1…');
 * for (const file of files) await save(await (await file.open()).blob(file.type));
 */
export async function receive(link: string, o: ReceiveOptions = {}): Promise<Received> {
  const { link: parsed } = parseLinkOf(link, 'share', 'blob');
  const { from = parsed.service, fetch } = o;
  if (parsed.kind === 'share') {
    const { keys, password, signal } = o;
    const given = keys === undefined ? [] : identitiesOf({ keys });
    const http = serviceHttp({ service: parsed.service, fetch });
    return receivedFrom(await openShare(http, parsed, { password, identities: () => given, signal }), from, fetch);
  }
  return { files: [receivedFile({ cid: parsed.cid }, { with: await credentialsOf(parsed, o), from, fetch })] };
}

/** The files of a parcel, to be fetched `from` services or gateways. */
export function receivedFrom({ files, ...words }: Parcel, from: FileOrigin['from'], fetch?: Fetch): Received {
  return {
    ...words,
    files: files.map(({ fileKey, ...file }) => receivedFile(file, { with: { fileKey }, from, fetch })),
  };
}

/** Number of retries to get the answer to an opening. */
const retries = 3;

/**
 * The record of a share, which the service hands out so often, and counts: `opensLeft` is how often
 * after this. Where the answer is lost, the service is asked again, and counts nothing.
 * @param opening random: for some minutes the same one gets the same record, which is counted once
 * @throws `not_found`, `gone`, as `json` of the service
 */
export async function recordOf(
  http: ServiceHttp,
  id: string,
  opening: string,
  signal: AbortSignal,
): Promise<{ record: Uint8Array; opensLeft: number }> {
  const headers = { 'Idempotency-Key': opening };
  for (let left = retries; ; left -= 1) {
    try {
      const path = `v1/shares/${id}/open`;
      const { record, opensLeft } = await http.json(OpenedShare, { method: 'POST', path, headers, signal });
      return { record: bytesOfBase64(record), opensLeft };
    } catch (error) {
      const seconds = secondsUntilAgain(error);
      if (left === 0 || seconds === undefined) throw error;
      // Somebody looks at the page.
      await sleep(Math.min(seconds, 10) * 1000, signal);
    }
  }
}

/** An opening that a later run can continue. */
export type Opening = {
  /** Says that an earlier run began it: then a share that is used up may still open. */
  readonly isContinued: boolean;
  /**
   * Returns the record: what is kept of it, or what `ask` gets with a token (`opening` of
   * `recordOf`).
   */
  record(ask: (token: string) => Promise<Uint8Array>): Promise<Uint8Array>;
};

/**
 * Opens a share: asks for its state and its secrets, and then for its record, which counts.
 * @throws as `receive`
 */
export async function openShare(
  http: ServiceHttp,
  { id, secret }: Pick<Extract<Link, { kind: 'share' }>, 'id' | 'secret'>,
  o: {
    readonly password: AskedPassword | undefined;
    /** Finds private keys, once the record turns out to need one. */
    readonly identities: () => readonly Identity[] | Promise<readonly Identity[]>;
    readonly signal: AbortSignal | undefined;
    /** One that nobody can continue when undefined. */
    readonly opening?: Opening | undefined;
    readonly provider?: CryptoProvider | undefined;
  },
): Promise<Parcel> {
  const { signal = new AbortController().signal, opening } = o;
  const { state, password: isNeeded } = await http.json(ShareStatus, { path: `v1/shares/${id}`, signal });
  if (state !== 'active' && !(state === 'used_up' && opening?.isContinued === true))
    throw new SealpinError('gone', endings[state], { hint: 'ask its sender to send it again' });
  if (!isNeeded && typeof o.password === 'string')
    throw new SealpinError('wrong_kind', 'the share has no password, and one was given: it was not opened', {
      hint: 'ask its sender, or leave the password out',
    });
  let password = isNeeded ? await asked(o.password, 0) : undefined;
  if (isNeeded && password === undefined)
    throw new SealpinError('wrong_kind', 'the share needs the password of its sender', { reason: 'needs_password' });
  // What cannot be a password does not use the share up.
  if (password !== undefined) passwordIdentity(password);
  const ask = async (token: string): Promise<Uint8Array> => (await recordOf(http, id, token, signal)).record;
  const record = await (opening === undefined ? ask(crypto.randomUUID()) : opening.record(ask));
  for (let failed = 1; ; failed += 1) {
    try {
      return await openParcel(record, {
        secret,
        password,
        identities: o.identities,
        place: { service: http.url, id },
        provider: o.provider,
      });
    } catch (error) {
      const isWrong = isSealpinError(error, 'decrypt_failed') && error.reason === 'wrong_password';
      password = isWrong && typeof o.password === 'function' ? await asked(o.password, failed) : undefined;
      if (password === undefined) throw error;
    }
  }
}

/** Messages for a share that cannot be opened any more. */
const endings = {
  used_up: 'the share was opened as often as its sender allowed',
  expired: 'the share has expired',
  revoked: 'the share was taken back, or its files were deleted',
} as const;

async function asked(password: AskedPassword | undefined, failed: number): Promise<string | undefined> {
  return typeof password === 'function' ? password(failed) : password;
}

/** Returns what opens the blob of a link. */
async function credentialsOf({ fileKey }: Extract<Link, { kind: 'blob' }>, o: ReceiveOptions): Promise<With> {
  if (fileKey !== undefined) return { fileKey };
  const { keys } = o;
  const password = await asked(o.password, 0);
  if (password !== undefined) return { password };
  if (keys !== undefined) return { keys };
  throw new SealpinError('wrong_kind', 'the link has no key: it needs a password, or a private key');
}

/**
 * Credentials that open a file, and the URLs of services or gateways to fetch it from, in order of
 * preference; `fetch` asks them, the global one when undefined.
 */
type FileOrigin = {
  readonly with: With;
  readonly from: string | readonly string[];
  readonly fetch?: Fetch | undefined;
};

/** A file that can be fetched and opened. */
function receivedFile(file: Omit<ReceivedFile, 'open'>, o: FileOrigin): ReceivedFile {
  return {
    ...file,
    async open({ start, end, signal } = {}) {
      const stopped = withStop(signal);
      const { size, read } = await openReceived(file, o, stopped.signal);
      try {
        const range = rangeIn(size, { start, end });
        return { ...contentOf(abortable(await read(range), signal), undefined), size: range.end - range.start };
      } catch (error) {
        stopped.stop(error);
        throw error;
      }
    },
  };
}

/** A file of `size` bytes that was opened, and of which any part can be read. */
export type OpenedFile = {
  readonly size: number;
  /** Bytes `start` up to `end` (exclusive). */
  read(range: { start: number; end: number }): Promise<ReadableStream<Uint8Array>>;
};

/**
 * Opens a file for reading parts of it: its root is verified and its last chunk authenticated once
 * for all of them.
 * @param o.pool where the memory of what is read and opened comes from; pieces may be given back
 * there
 * @param signal ends everything that is read of it
 * @throws as `open` of the file
 */
export async function openReceived(
  { cid, size }: Pick<ReceivedFile, 'cid' | 'size'>,
  { with: credentials, from, ...o }: FileOrigin & { readonly pool?: BufferPool | undefined },
  signal: AbortSignal,
): Promise<OpenedFile> {
  const stopped = withStop(signal);
  try {
    const blob = await openBlob(cid, from, stopped.signal, o);
    const stored = accessTo(blob);
    const opened =
      'fileKey' in credentials
        ? await openAtWithFileKey(stored, { ...credentials, pool: o.pool })
        : await openAt(stored, { identities: identitiesOf(credentials), pool: o.pool });
    if (size !== undefined && size !== opened.plaintextBytes) throw wrongSize();
    return { size: opened.plaintextBytes, read: (range) => opened.decryptRange(range) };
  } catch (error) {
    stopped.stop(error);
    throw error;
  }
}

/** The error for a file that is authentic, and not as long as the parcel says. */
export function wrongSize(): SealpinError {
  return new SealpinError('parcel_invalid', "the file's size does not match the parcel");
}
