/** Shares: parcels that a service keeps for anyone who has the link. */
import {
  Health,
  membersOf,
  Share,
  ShareList,
  ShareReceipt,
  ShareTerms,
  type ShareChange,
  type ShareRequest,
} from '../shared/api.ts';
import { encodePadded } from '../shared/crypto/bytes.ts';
import {
  passwordRecipient,
  type CryptoProvider,
  type ParcelSigner,
  type PasswordKdf,
  type Recipient,
} from '../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import { newShareId, printLink, sealParcel, type Parcel } from '../shared/link/index.ts';
import { undoingDeadline, untilAnswered, type RetryOptions } from './attempts.ts';
import { recipientsOf } from './credentials.ts';
import {
  removeAll,
  removeAt,
  sealAndStore,
  storeAt,
  usingFiles,
  type Outgoing,
  type RemoveFiles,
  type SendingOptions,
  type SentFile,
} from './sending.ts';
import { endTime, type ServiceHttp } from './service-http.ts';
import { dayMs, hourMs } from '../shared/time.ts';

export type ShareOptions = Readonly<ShareTerms> & {
  /** In 7 days when undefined. The service has a maximum. */
  readonly expiresAt?: Date | string | undefined;
  /** The receiver needs it besides the link. */
  readonly password?: string | undefined;
  /**
   * Public keys, as `seal` takes them: besides the link, the receiver needs one of the private
   * keys. Not together with a password.
   */
  readonly to?: string | readonly string[] | undefined;
};

/** A share that was made. `link` is all that its receiver needs, and nobody can make it again. */
export type Shared = { readonly link: string; readonly share: Share };

/** With what a parcel is sealed: `recipients` are the parsed keys of `to`. */
export type Sealing = {
  readonly recipients: readonly Recipient[];
  readonly kdf?: PasswordKdf;
  readonly provider?: CryptoProvider;
  /** Signs the parcel, for this share and these recipients. */
  readonly signer?: ParcelSigner | undefined;
};

/**
 * The keys of `to`, before any work is done for them.
 * @throws SealpinError `password_invalid`, `key_invalid`, `no_recipients`, `invalid_request` for a
 * password and keys
 */
export function shareRecipients({ password, to }: ShareOptions): Recipient[] {
  if (password !== undefined) passwordRecipient(password);
  if (to === undefined) return [];
  if (password !== undefined)
    throw new SealpinError('invalid_request', 'a password cannot be combined with keys', {
      reason: 'password_and_keys',
    });
  const recipients = recipientsOf({ keys: to });
  if (recipients.length === 0) throw new SealpinError('no_recipients');
  return recipients;
}

/**
 * Seals a parcel and has the service keep it.
 * @param files the IDs of files whose deletion ends the share
 * @throws as `send` of a connection
 */
export async function shareParcel(
  http: ServiceHttp,
  { parcel, files }: { parcel: Parcel; files: readonly string[] },
  o: ShareOptions & RetryOptions,
  sealing: Sealing = { recipients: shareRecipients(o) },
): Promise<Shared> {
  const { signer, recipients } = sealing;
  // What is signed names its share, and a request that is sent again makes no second one.
  const id = newShareId();
  const to = recipients.flatMap(({ text = [] }) => text);
  const signing = signer ? { signer, service: http.url, id, recipients: to } : undefined;
  const { record, secret } = await sealParcel(parcel, { password: o.password, ...sealing, signing });
  const request: ShareRequest = {
    id,
    record: encodePadded(record),
    files: [...files],
    password: o.password !== undefined,
    ...membersOf(ShareTerms, o),
    expiresAt: endTime(o.expiresAt),
  };
  const share = await untilAnswered((before) => createShare(http, { request, before }, o), o);
  return { link: printLink({ kind: 'share', service: http.url, id: share.id, secret }), share };
}

async function createShare(
  http: ServiceHttp,
  { request, before }: { request: ShareRequest; before: number },
  { signal }: RetryOptions,
): Promise<Share> {
  try {
    return await http.json(Share, { method: 'POST', path: 'v1/shares', content: request, signal });
  } catch (error) {
    if (before === 0 || !isSealpinError(error, 'conflict')) throw error;
    // The answer of an earlier attempt was lost.
    const made = (await sharesPage(http, { limit: 100, signal })).shares.find(({ id }) => id === request.id);
    if (made === undefined) throw error;
    return made;
  }
}

/**
 * Files that were sent: the link for the receiver, what the service keeps for it, and the files
 * there.
 */
export type Sent = Shared & { readonly files: readonly SentFile[] };

/**
 * Seals and stores files, and makes a link for them; fails as `send` of a connection.
 * @param o.expiresAt of the stored files; never where it is undefined
 */
export function sendFiles(
  http: ServiceHttp,
  files: Outgoing | readonly Outgoing[],
  options: ShareOptions & SendingOptions,
  o: Pick<ShareOptions, 'expiresAt'> = {},
): Promise<Sent> {
  return usingFiles(files, async () => {
    shareRecipients(options);
    const { opens, signal } = options;
    const expiresAt = endTime(options.expiresAt);
    const until = endTime(o.expiresAt);
    const deadline = undoingDeadline();
    const remove: RemoveFiles = (fileIds) => removeAt(http, fileIds, deadline());
    const store = storeAt(http, { expiresAt: until === undefined ? undefined : new Date(until), deadline });
    const health = { path: 'v1/health', query: { live: 'true' }, signal };
    const ask = async () => {
      const response = await http.call(health);
      const nowMs = Date.parse(response.headers.get('Date') ?? '');
      return { nowMs, ...(await http.jsonIn(Health, response, signal)) };
    };
    const admit = async (): Promise<void> => {
      const { shares, nowMs } = await untilAnswered(ask, { signal });
      refuseTerms(shares, { opens, expiresAt }, { nowMs });
    };
    const stored = await sealAndStore(files, { ...options, store, remove, admit });
    try {
      const about = { parcel: stored.parcel, files: stored.files.map(({ fileId }) => fileId) };
      return { ...(await shareParcel(http, about, options)), files: stored.files };
    } catch (error) {
      await removeAll(stored.files, remove);
      throw error;
    }
  });
}

/**
 * Refuses terms before a byte is sent that the service would refuse after the last one. A service
 * of an earlier version does not say which (`shares` is undefined).
 * @param o.nowMs by its clock, which decides; NaN where it is not known: then the service judges
 * times
 * @throws SealpinError `invalid_request`, `forbidden` where the service makes no shares
 */
export function refuseTerms(
  shares: Health['shares'],
  { opens = 0, expiresAt = '' }: { readonly opens?: number | undefined; readonly expiresAt?: string | undefined },
  { nowMs, hint }: { readonly nowMs: number; readonly hint?: string },
): void {
  if (shares === null)
    throw new SealpinError('forbidden', 'this service makes no links: its operator has turned them off');
  if (Date.parse(expiresAt) <= nowMs)
    throw new SealpinError('invalid_request', 'expiresAt must be a time in the future', { hint });
  if (shares === undefined) return;
  const { maxDays, maxOpens } = shares;
  if (opens > maxOpens)
    throw new SealpinError('invalid_request', `opens must be at most ${maxOpens} at this service`, { hint });
  if (Date.parse(expiresAt) > nowMs + maxDays * dayMs + hourMs)
    throw new SealpinError('invalid_request', `a share lasts at most ${maxDays} days at this service`, { hint });
}

/** A page of a list. */
export type PageOptions = {
  limit?: number | undefined;
  cursor?: string | undefined;
  signal?: AbortSignal | undefined;
};

/** A page of the shares that the API key sees. */
export function sharesPage(http: ServiceHttp, { signal, ...query }: PageOptions): Promise<ShareList> {
  return http.json(ShareList, { path: 'v1/shares', query, signal });
}

/**
 * Other terms of a share. `opens`: how often it opens in all, the times before included. What is
 * undefined stays.
 */
export type ShareChanges = {
  readonly expiresAt?: Date | string | undefined;
  readonly opens?: number | undefined;
  readonly signal?: AbortSignal | undefined;
};

/** Changes how often and how long a share opens. */
export async function changeShare(http: ServiceHttp, shareId: string, changes: ShareChanges): Promise<Share> {
  const { opens, signal } = changes;
  const content: ShareChange = { opens, expiresAt: endTime(changes.expiresAt) };
  return http.json(Share, { method: 'PATCH', path: `v1/shares/${encodeURIComponent(shareId)}`, content, signal });
}

/** Ends a share. */
export function revokeShare(
  http: ServiceHttp,
  shareId: string,
  signal: AbortSignal | undefined,
): Promise<ShareReceipt> {
  return http.json(ShareReceipt, { method: 'DELETE', path: `v1/shares/${encodeURIComponent(shareId)}`, signal });
}
