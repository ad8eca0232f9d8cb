/** Sealing and opening files, without any service. */
import {
  encrypt,
  generateKeyPair,
  generatePostQuantumKeyPair,
  open as openContainer,
  openWithFileKey,
  type Format,
} from '../shared/crypto/index.ts';
import { SealpinError } from '../shared/errors.ts';
import { hashingStream } from '../shared/ipfs/index.ts';
import { cancelQuietly } from '../shared/streams/cancel-quietly.ts';
import { withStop } from '../shared/streams/timing.ts';
import { identitiesOf, recipientsOf, type To, type With } from './credentials.ts';
import { abortable, contentOf, openSource, usingSources, type Content, type Source } from './web-bytes.ts';

/** A container, while it is made: sealing goes on as it is read. */
export type Sealed = Pick<Content, 'stream' | 'size' | 'bytes'> & {
  /**
   * Its blob ID, once all of it has been read; rejects with the error of the source, or when
   * reading is given up.
   */
  readonly cid: Promise<string>;
  blob(): Promise<Blob>;
};

/**
 * Seals bytes for somebody, in constant memory.
 * @param o.to a password, or public keys
 * @param o.format `age`, which every age tool opens, or `sealpin` (AES-256-GCM, faster in
 * browsers). As in the command line, `sealpin` for a password and `age` for keys when undefined
 * @param o.signal ends it: everything rejects with the signal's reason, and the source is cancelled
 * @throws SealpinError `password_invalid`, `key_invalid`, `no_recipients`, `invalid_request` for
 * keys that the format does not take, `kdf_unavailable`, `random_failed`, `service_answer` for a
 * response that is a refusal
 * @example
 * const sealed = await seal(file, { to: { keys: 'age1…' } });
 * await fetch(url, { method: 'PUT', body: await sealed.blob() });
 * console.log(await sealed.cid);
 */
export async function seal(
  source: Source,
  options: { to: To; format?: Format | undefined; signal?: AbortSignal | undefined },
): Promise<Sealed> {
  return usingSources([source], async () => {
    const { to, format, signal } = options;
    const { stream, size } = openSource(source);
    signal?.throwIfAborted();
    const container = await encrypt(stream, {
      format: format ?? ('password' in to ? 'sealpin' : 'age'),
      recipients: recipientsOf(to),
    });
    const hashed = hashingStream(container.stream);
    const { blob, ...content } = contentOf(
      abortable(hashed.stream, signal),
      size === undefined ? undefined : container.size(size),
    );
    const cid = hashed.result.then((result) => result.cid);
    // Who reads the stream sees the error there; in a `cid` that nobody awaits it must not count as
    // unhandled.
    cid.catch(() => undefined);
    return { ...content, cid, blob: () => blob() };
  });
}

/**
 * Opens a container, in ASCII armor or not, in constant memory.
 *
 * The bytes that `stream` gives are authentic, and the file is whole only when it ends without an
 * error: until then, what came may be the beginning of a file that was cut off. `bytes`, `text` and
 * `blob` give the whole file or fail.
 * @param o.with a password, private keys, or the file key; a file key also opens a payload without
 * a header
 * @param o.signal ends it: everything rejects with the signal's reason, and the source is cancelled
 * @throws SealpinError `not_encrypted`, `unsupported_version`, `header_invalid`, `wrong_kind` (it
 * needs another kind of credential), `decrypt_failed`, `password_invalid`, `key_invalid`,
 * `kdf_unavailable`, `service_answer` for a response that is a refusal. Reading fails with
 * `decrypt_failed`, `container_invalid`, and what the source fails with
 * @example
 * const opened = await open(await fetch(url), { with: { keys: privateKey } });
 * const text = await opened.text();
 */
export async function open(
  source: Source,
  options: { with: With; signal?: AbortSignal | undefined },
): Promise<Content> {
  return usingSources([source], () => openContent(source, options));
}

async function openContent(
  source: Source,
  { with: credentials, signal }: Parameters<typeof open>[1],
): Promise<Content> {
  const { stream, size } = openSource(source);
  const container = abortable(stream, signal);
  return usingSources([container], async () => {
    signal?.throwIfAborted();
    if ('fileKey' in credentials)
      return contentOf(abortable(await openWithFileKey(container, credentials), signal), undefined);
    const identities = identitiesOf(credentials);
    const opened = await openContainer(container);
    if ('decrypt' in opened) {
      const plaintext = await opened.decrypt(identities);
      return contentOf(abortable(plaintext, signal), size === undefined ? undefined : opened.plaintextBytes(size));
    }
    await cancelQuietly(opened.stream);
    if (opened.kind === 'plain') throw new SealpinError('not_encrypted');
    throw new SealpinError('wrong_kind', 'it has no header: only its file key opens it');
  });
}

/** Kind of a file. */
export type Inspection =
  /** A container, and what opens it. */
  | { readonly kind: Format; readonly opens: 'password' | 'keys' }
  /** `detached`: a payload that only its file key opens; `plain`: anything else. */
  | { readonly kind: 'detached' | 'plain' };

/**
 * Tells what a file is by its beginning, and what opens it. Of a stream or response, which cannot
 * be read again, the rest is cancelled.
 * @throws SealpinError `unsupported_version`, `header_invalid`, and what the source fails with
 * @example
 * const { kind } = await inspect(file); // 'age', 'sealpin', 'detached' or 'plain'
 */
export async function inspect(
  source: Source,
  { signal }: { signal?: AbortSignal | undefined } = {},
): Promise<Inspection> {
  const enough = withStop(signal);
  try {
    const opened = await openContainer(abortable(openSource(source).stream, enough.signal));
    return 'opens' in opened ? { kind: opened.kind, opens: opened.opens } : { kind: opened.kind };
  } finally {
    enough.stop();
  }
}

/**
 * A key pair, as texts of key files. The public key is given away; the private key opens what is
 * sealed to it.
 */
export type Keys = {
  /** The text of a private key file; `open` takes it. */
  readonly privateKey: string;
  /** The text of a public key file; `seal` takes it, and so does the command line. */
  readonly publicKey: string;
  /** The public key in one line: `age1tag1…`, or `age1tagpq1…`. */
  readonly recipient: string;
};

/**
 * Makes a key pair: P-256, or with `postQuantum` ML-KEM-768 with P-256, which a quantum computer
 * does not break.
 * @throws SealpinError `random_failed`
 * @example
 * const { privateKey, recipient } = await generateKeys();
 */
export async function generateKeys({ postQuantum = false }: { postQuantum?: boolean | undefined } = {}): Promise<Keys> {
  if (postQuantum) {
    const { privateText, publicText, recipient } = await generatePostQuantumKeyPair();
    return { privateKey: privateText, publicKey: publicText, recipient };
  }
  const { privatePem, publicPem, recipient } = await generateKeyPair();
  return { privateKey: privatePem, publicKey: publicPem, recipient };
}
