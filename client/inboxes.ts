/** Inboxes: links by which anybody hands files over that only the owner of a key reads (docs/links.md). */
import { FileList, NewApiKeyResponse, Revoked, StoredFile, type ApiKeyRecord, type NewApiKey } from '../shared/api.ts';
import { parseRecipients, type Identity, type Recipient } from '../shared/crypto/index.ts';
import { SealpinError } from '../shared/errors.ts';
import {
  maxRecordBytes,
  openParcelWith,
  parseLink,
  printLink,
  sealedParcelType,
  sealParcelTo,
  type Link,
  type Parcel,
} from '../shared/link/index.ts';
import { accountIdentities, accountOf, recipientOf } from './account-key.ts';
import { openBlob } from './blobs.ts';
import { identitiesOf } from './credentials.ts';
import { put } from './put.ts';
import { receivedFrom, type Received } from './receiving.ts';
import { sealAndStore, storeAt, type Outgoing, type SendingOptions, type SentFile } from './sending.ts';
import { serviceHttp, type Fetch, type ServiceHttp } from './service-http.ts';

/** An inbox that was made. `link` is for those who hand files over; nobody can make it again. `key.id` closes it. */
export type CreatedInbox = { readonly link: string; readonly key: ApiKeyRecord; readonly recipient: string };

/** What was handed over, not opened yet. `id` is the file ID of its parcel. */
export type Delivery = { readonly id: string; readonly receivedAt: string };

/** The inboxes of an account. Every function throws what the service refuses with, by its code, and as `connect` says. */
export interface Inboxes {
  /**
   * Makes an inbox: an API key that can only store, and whom the files are sealed to. Needs an API key with `write` and `keys`.
   * @param o.label what the list of API keys calls it
   * @param o.expiresAt when it closes; when the caller's key expires, if undefined
   * @param o.limits what may be stored through it: files (a delivery is one more than its files), bytes, and bytes of one file
   * @param o.recipient who can open what comes, `age1tag1…`; the account when undefined
   * @example
   * const { link } = await connection.inbox.create({ label: 'tax office', limits: { bytes: 1e9 } });
   */
  create(o: {
    label: string;
    expiresAt?: Date | string | undefined;
    limits?: NonNullable<NewApiKey['limits']> | undefined;
    recipient?: string | undefined;
    signal?: AbortSignal | undefined;
  }): Promise<CreatedInbox>;
  /**
   * What was handed over, newest first, a page at a time; a page may be short before the last one.
   * @param o.limit how many files of the account are looked at; 100 when undefined
   * @example
   * const { deliveries, cursor } = await connection.inbox.list();
   */
  list(o?: { limit?: number | undefined; cursor?: string | undefined; signal?: AbortSignal | undefined }): Promise<{
    deliveries: Delivery[];
    cursor?: string | undefined;
  }>;
  /**
   * Opens a delivery: its files, and the words of who handed it over. Needs an API key with `read`.
   * @param o.keys private keys, for an inbox with a recipient of its own
   * @throws SealpinError `not_found`, `parcel_invalid` for a file that is no delivery, `decrypt_failed`
   * @example
   * const { from, files } = await connection.inbox.open(delivery.id);
   */
  open(
    id: string,
    o?: { keys?: string | readonly string[] | undefined; signal?: AbortSignal | undefined },
  ): Promise<Received>;
  /**
   * Closes an inbox: nothing more can be handed over. What has come stays.
   * @param keyId `key.id` of the inbox
   */
  close(keyId: string, o?: { signal?: AbortSignal | undefined }): Promise<Revoked>;
}

/** The inboxes of a connection. */
export function inboxes(http: ServiceHttp, apiKey: string | undefined): Inboxes {
  return {
    create: (o) => create(http, o),
    async list({ limit = 100, cursor, signal } = {}) {
      const page = await http.json(FileList, { path: 'v1/storage', query: { limit, cursor }, signal });
      const parcels = page.files.filter(({ contentType }) => contentType === sealedParcelType);
      return {
        deliveries: parcels.map(({ fileId, createdAt }) => ({ id: fileId, receivedAt: createdAt })),
        ...(page.cursor === undefined ? {} : { cursor: page.cursor }),
      };
    },
    async open(id, { keys, signal } = {}) {
      const identities = keys === undefined ? await accountIdentities(http, apiKey, signal) : identitiesOf({ keys });
      return receivedFrom(await openDelivery(http, id, { identities, signal }), http.url);
    },
    close: (keyId, { signal } = {}) =>
      http.json(Revoked, { method: 'DELETE', path: `v1/keys/${encodeURIComponent(keyId)}`, signal }),
  };
}

/**
 * Opens the parcel of a delivery.
 * @throws SealpinError `not_found`, `parcel_invalid` for another file, `decrypt_failed`
 */
export async function openDelivery(
  http: ServiceHttp,
  id: string,
  { identities, signal }: { identities: readonly Identity[]; signal: AbortSignal | undefined },
): Promise<Parcel> {
  const path = `v1/storage/${encodeURIComponent(id)}`;
  const about = await http.json(StoredFile, { path, query: { data: 'false' }, signal });
  if (about.contentType !== sealedParcelType || about.size > maxRecordBytes)
    throw new SealpinError('parcel_invalid', 'This file is not one that was handed over to an inbox');
  const blob = await openBlob(about.cid, http.url, signal);
  return openParcelWith(blob.read(0, blob.size), { identities });
}

async function create(http: ServiceHttp, o: Parameters<Inboxes['create']>[0]): Promise<CreatedInbox> {
  const { label, expiresAt, limits, signal } = o;
  const recipient = o.recipient ?? recipientOf(await accountOf(http, signal));
  const request: NewApiKey = {
    label,
    scopes: ['write'],
    ...(expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt).toISOString() }),
    ...(limits === undefined ? {} : { limits }),
  };
  // Before there is a key that nobody could use: the link takes one kind of recipient.
  if (!recipient.startsWith('age1tag1'))
    throw new SealpinError('key_invalid', 'The recipient of an inbox is a public key of the form age1tag1…', {
      reason: 'unsupported_key',
    });
  parseRecipients(recipient);
  const { key, apiKey } = await http.json(NewApiKeyResponse, {
    method: 'POST',
    path: 'v1/keys',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(request),
    signal,
  });
  return { link: printLink({ kind: 'inbox', service: http.url, apiKey, recipient }), key, recipient };
}

/**
 * Hands files over to the inbox of a link: seals each under a key of its own, and the keys, names and words to the owner. Neither the
 * service nor the sender can open them afterwards.
 * @throws SealpinError `link_invalid`, `unauthorized` for an inbox that is closed, `quota_exceeded` for one that is full, and what
 *   `send` of a connection throws
 * @example
 * await handOver(link, input.files, { note: 'The receipts of March', from: 'Ann' });
 */
export async function handOver(
  link: string,
  files: Outgoing | readonly Outgoing[],
  { fetch, ...options }: SendingOptions & { readonly fetch?: Fetch | undefined } = {},
): Promise<{ readonly files: readonly SentFile[] }> {
  const { service, apiKey, recipient } = parseInboxLink(link);
  const http = serviceHttp({ service, apiKey, fetch });
  const recipients = parseRecipients(recipient);
  // The key of an inbox may not delete: what was stored before a failure stays, and nobody can open it.
  const stored = await sealAndStore(files, { ...options, store: storeAt(http), remove: async () => undefined });
  await deliver(http, stored.parcel, { recipients, signal: options.signal });
  return { files: stored.files };
}

/**
 * Reads the link of an inbox.
 * @throws SealpinError `link_invalid`, also for the link of a share; `unsupported_version`
 */
export function parseInboxLink(text: string): Extract<Link, { kind: 'inbox' }> {
  const { link } = parseLink(text);
  if (link.kind === 'inbox') return link;
  throw new SealpinError('link_invalid', 'The link is one for receiving files, not for handing them over', {
    reason: 'not_a_link',
    hint: 'ask for the link of an inbox',
  });
}

/**
 * Seals a parcel to the owner of an inbox and stores it: with it the files are handed over.
 * @param http with the API key of the inbox
 * @throws SealpinError what the service refuses with
 */
export async function deliver(
  http: ServiceHttp,
  parcel: Parcel,
  { recipients, signal }: { recipients: readonly Recipient[]; signal: AbortSignal | undefined },
): Promise<void> {
  const sealed = new Blob([await sealParcelTo(parcel, { recipients })], { type: sealedParcelType });
  await put(http, sealed, { mode: 'plain', ...(signal === undefined ? {} : { signal }) });
}
