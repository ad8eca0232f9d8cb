/**
 * Inboxes: links by which anybody hands files over that only the owner of a key reads
 * (docs/links.md).
 */
import { FileList, type StoredFile, type AccountDetails, type ApiKeyRecord, type Revoked } from '../shared/api.ts';
import { parseRecipients, type Identity, type Recipient } from '../shared/crypto/index.ts';
import { isSealpinError, SealpinError, type Code } from '../shared/errors.ts';
import { readAll } from '../shared/streams/read-all.ts';
import {
  maxRecordBytes,
  openParcelWith,
  type Signing,
  parseLinkOf,
  printLink,
  sealedParcelType,
  sealParcelTo,
  type Parcel,
} from '../shared/link/index.ts';
import { accountIdentities, accountOf } from './account-key.ts';
import { untilAnswered, type RetryOptions } from './attempts.ts';
import { cidOf } from './blobs.ts';
import { identitiesOf } from './credentials.ts';
import { createLimitedKey, revokeKeyById, type KeyTerms } from './limited-key.ts';
import { put } from './put.ts';
import { receivedFrom, type Received } from './receiving.ts';
import {
  sealAndStore,
  storeAt,
  usingFiles,
  type Draft,
  type Outgoing,
  type SendingOptions,
  type SentFile,
} from './sending.ts';
import { serviceHttp, type Fetch, type ServiceHttp } from './service-http.ts';
import type { PageOptions } from './sharing.ts';
import { aboutFile, filePath } from './stored-files.ts';

/**
 * An inbox that was made. `link` is for those who hand files over; nobody can make it again.
 * `key.id` closes it.
 */
export type CreatedInbox = { readonly link: string; readonly key: ApiKeyRecord; readonly recipient: string };

/** Delivery that is not opened yet. `id` is the file ID of its parcel. */
export type Delivery = { readonly id: string; readonly receivedAt: string };

/**
 * The inboxes of an account. Every function throws what the service refuses with, by its code, and
 * as `connect` says.
 */
export interface Inboxes {
  /**
   * Makes an inbox: an API key that can only store, and whom the files are sealed to. Needs an API
   * key with `write` and `keys`.
   * @param o.label what the list of API keys calls it
   * @param o.recipient who can open what comes, `age1tag1…`: a key that you know, since who answers
   * for one chooses who reads
   * @param o.expiresAt when it closes; in 90 days, or when the caller's key expires before that, if
   * undefined
   * @param o.limits what may be stored through it: files (a delivery is one more than its files;
   * 200 if undefined), bytes (1 GiB if undefined), and bytes of one file; the limits of the
   * caller's key where those are lower
   * @throws SealpinError `key_invalid` for a recipient of another form: an inbox has no
   * post-quantum key
   * @example
   * const { link } = await connection.inbox.create({
   *   label: 'tax office',
   *   recipient: keys.recipient,
   *   limits: { bytes: 1e9 },
   * });
   */
  create(o: KeyTerms & { recipient: string }): Promise<CreatedInbox>;
  /**
   * Lists deliveries, newest first, a page at a time; a page may be short before the last one.
   * @param o.limit how many files of the account are looked at; 100 when undefined
   * @example
   * const { deliveries, cursor } = await connection.inbox.list();
   */
  list(o?: PageOptions): Promise<{ deliveries: Delivery[]; cursor?: string | undefined }>;
  /**
   * Opens a delivery: its files, and the words of who handed it over. Needs an API key with `read`.
   * @param o.keys the private keys of the recipient; that of the account when undefined
   * @throws SealpinError `not_found`, `parcel_invalid` for a file that is no delivery,
   * `decrypt_failed`
   * @example
   * const { from, files } = await connection.inbox.open(delivery.id);
   */
  open(
    id: string,
    o?: { keys?: string | readonly string[] | undefined; signal?: AbortSignal | undefined },
  ): Promise<Received>;
  /**
   * Closes an inbox, by the ID of its key: nothing more can be handed over. What has come stays.
   */
  close(keyId: string, o?: { signal?: AbortSignal | undefined }): Promise<Revoked>;
}

export function inboxes(http: ServiceHttp, apiKey: string | undefined): Inboxes {
  return {
    create: (o) => create(http, o),
    async list({ limit = 100, cursor, signal } = {}) {
      const page = await http.json(FileList, { path: 'v1/storage', query: { limit, cursor }, signal });
      const parcels = page.files.filter(isDelivery);
      const deliveries = parcels.map(({ fileId, createdAt }) => ({ id: fileId, receivedAt: createdAt }));
      return { deliveries, cursor: page.cursor };
    },
    async open(id, { keys, signal } = {}) {
      const identities = keys === undefined ? await accountIdentities(http, apiKey, signal) : identitiesOf({ keys });
      const about = await aboutFile(http, id, signal);
      const sealed = await readDelivery(http, about, signal);
      return receivedFrom(await openSealed(http, about, sealed, identities), http.url, http.fetch);
    },
    close: (keyId, { signal } = {}) => revokeKeyById(http, keyId, signal),
  };
}

/**
 * Opens the parcel that `readDelivery` gave for a file.
 * @throws SealpinError `parcel_invalid`, `decrypt_failed`, and what the formats say
 */
export function openSealed(
  { url }: Pick<ServiceHttp, 'url'>,
  { createdBy }: Pick<StoredFile, 'createdBy'>,
  sealed: Uint8Array<ArrayBuffer>,
  identities: readonly Identity[],
): Promise<Parcel> {
  // Its inbox is the API key that stored it.
  const place = createdBy === undefined ? undefined : { service: url, id: createdBy };
  return openParcelWith(new Blob([sealed]).stream(), { identities, place });
}

/** Recognizes the parcel of a delivery. Its media type proves nothing. */
export function isDelivery({ mode, contentType }: Pick<StoredFile, 'mode' | 'contentType'>): boolean {
  return mode === 'plain' && contentType === sealedParcelType;
}

/** With these, the next delivery fares no better: the service fails, or refuses the caller. */
const endings: readonly Code[] = [
  'service_unreachable',
  'unauthorized',
  'insufficient_scope',
  'account_disabled',
  'forbidden',
  'rate_limited',
  'overloaded',
  'interrupted',
];

/**
 * Tells whether a delivery alone is to blame. Anyone with the link of an inbox can hand over what
 * does not open: it must hide no other.
 */
export function concernsDelivery(error: unknown): error is SealpinError {
  return isSealpinError(error) && !endings.includes(error.code);
}

/**
 * Reads the sealed parcel of a delivery, by the API key: what an address may ask for is used up by
 * as many deliveries as anyone hands over. Waits where the key has asked for too much.
 * @throws SealpinError `not_found`, `parcel_invalid` for another file, `content_mismatch`
 */
export async function readDelivery(
  http: ServiceHttp,
  file: StoredFile,
  signal: AbortSignal | undefined,
): Promise<Uint8Array<ArrayBuffer>> {
  if (!isDelivery(file) || file.size > maxRecordBytes) throw notADelivery();
  const headers = { Accept: 'application/octet-stream' };
  const read = async () => {
    const response = await http.call({ path: `${filePath(file.fileId)}/content`, headers, signal });
    return readAll(http.body(response, file.size, signal), maxRecordBytes, notADelivery);
  };
  const isTemporary = (error: unknown): error is SealpinError =>
    isSealpinError(error, 'rate_limited') && error.retryAfterSeconds !== undefined;
  const sealed = await untilAnswered(read, { signal, isTemporary });
  if ((await cidOf(sealed)) === file.cid) return sealed;
  throw new SealpinError('content_mismatch', 'the service returned other bytes than were handed over');
}

function notADelivery(): SealpinError {
  return new SealpinError('parcel_invalid', 'this file is not one that was handed over to an inbox');
}

async function create(http: ServiceHttp, o: Parameters<Inboxes['create']>[0]): Promise<CreatedInbox> {
  const { label, recipient, expiresAt, limits, signal } = o;
  // Before there is a key that nobody could use: the link takes one kind of recipient.
  const [text, ...more] = parseRecipients(recipient).map((each) => each.text);
  if (more.length > 0 || text?.startsWith('age1tag1') !== true)
    throw new SealpinError('key_invalid', 'the recipient of an inbox is one public key of the form age1tag1…', {
      reason: 'unsupported_key',
    });
  const { key, apiKey } = await createLimitedKey(http, 'write', { label, expiresAt, limits, signal });
  return { link: printLink({ kind: 'inbox', service: http.url, apiKey, recipient: text }), key, recipient: text };
}

/**
 * The most files of a delivery whose parcel names them: their IDs are in an address, of which
 * servers take 8 KiB.
 */
const maxNamed = 200;

/**
 * Tells whether the service keeps payloads only once a parcel names them: if so, it says what
 * limits leave.
 */
export function isProvisional({ left }: AccountDetails['key'], files: number): boolean {
  return left !== undefined && files <= maxNamed;
}

/**
 * Refuses a delivery that an inbox has no room for, before anything of it is stored.
 * @param key that of the inbox, as its service has it
 * @param draft without payloads that are stored already
 * @throws SealpinError `quota_exceeded`
 */
export async function admit(
  { left = {}, limits = {} }: AccountDetails['key'],
  { payloads, parcel }: Draft,
  recipients: readonly Recipient[],
): Promise<void> {
  const sizes = [...payloads, (await sealParcelTo(parcel, { recipients })).length].map((bytes = 0) => bytes);
  const total = sizes.reduce((sum, bytes) => sum + bytes, 0);
  const refused = (detail: string) =>
    new SealpinError('quota_exceeded', detail, { hint: 'ask its owner to make room, or for the link of another one' });
  if (sizes.length > (left.files ?? Infinity))
    throw refused(
      `the inbox has room for ${left.files} more file${left.files === 1 ? '' : 's'}, and the delivery has ` +
        `${sizes.length}, its list included`,
    );
  if (total > (left.bytes ?? Infinity))
    throw refused(`the inbox has room for ${left.bytes} more bytes, and the delivery has ${total}`);
  if (Math.max(...sizes) > (limits.fileBytes ?? Infinity))
    throw refused(`the inbox takes files of at most ${limits.fileBytes} bytes, encrypted`);
}

/**
 * Hands files over to the inbox of a link: seals each under a key of its own, and the keys, names
 * and words to the owner. Neither the service nor the sender can open them afterwards.
 * @throws SealpinError `link_invalid`, `unauthorized` for an inbox that is closed, `quota_exceeded`
 * for one that is full, and what `send` of a connection throws
 * @example
 * await handOver(link, [...input.files], { note: 'The receipts of March', from: 'Ann' });
 */
export async function handOver(
  link: string,
  files: Outgoing | readonly Outgoing[],
  { fetch, ...options }: SendingOptions & { readonly fetch?: Fetch | undefined } = {},
): Promise<{ readonly files: readonly SentFile[] }> {
  return usingFiles(files, async () => {
    const { service, apiKey, recipient } = parseLinkOf(link, 'inbox').link;
    const http = serviceHttp({ service, apiKey, fetch });
    const recipients = parseRecipients(recipient);
    const { key } = await accountOf(http, options.signal);
    const provisional = isProvisional(key, [files].flat().length);
    const stored = await sealAndStore(files, {
      ...options,
      store: storeAt(http, { provisional }),
      admit: (draft) => admit(key, draft, recipients),
      // The key of an inbox may not delete. Nobody can open what was stored before a failure, and
      // the service removes it after a day.
      remove: async () => undefined,
    });
    const names = provisional ? stored.files.map(({ fileId }) => fileId) : undefined;
    await deliver(http, stored.parcel, { recipients, names, signal: options.signal });
    return { files: stored.files };
  });
}

/**
 * Seals a parcel to the owner of an inbox and stores it: with it the files are handed over.
 * @param http with the API key of the inbox
 * @param o.names the file IDs of payloads that stay with it
 * @param o.signing its signer, and the ID of the inbox's API key
 * @throws SealpinError `not_found` where one of these is not there any more, and what the service
 * refuses with
 */
export async function deliver(
  http: ServiceHttp,
  parcel: Parcel,
  o: RetryOptions & {
    recipients: readonly Recipient[];
    names: readonly string[] | undefined;
    signing?: Pick<Signing, 'signer' | 'id'> | undefined;
  },
): Promise<void> {
  const { recipients, names, signing } = o;
  const to = recipients.flatMap(({ text = [] }) => text);
  const signed = signing && { ...signing, service: http.url, recipients: to };
  const sealed = new Blob([await sealParcelTo(parcel, { recipients, signing: signed })], { type: sealedParcelType });
  const idempotencyKey = crypto.randomUUID();
  try {
    await untilAnswered(() => put(http, sealed, { mode: 'plain', names, idempotencyKey, signal: o.signal }), o);
  } catch (error) {
    if (!isSealpinError(error, 'not_found')) throw error;
    throw new SealpinError('not_found', 'the service has removed a file of this delivery, which waited for too long', {
      hint: 'hand the files over again',
      cause: error,
    });
  }
}
