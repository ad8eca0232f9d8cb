/** Shares: parcels that a service keeps for anyone who has the link. */
import { membersOf, Share, ShareTerms, type ShareRequest } from '../shared/api.ts';
import { passwordRecipient, type Backend, type PasswordKdf, type Recipient } from '../shared/crypto/index.ts';
import { SealpinError } from '../shared/errors.ts';
import { printLink, sealParcel, type Parcel } from '../shared/link/index.ts';
import { recipientsOf } from './credentials.ts';
import type { ServiceHttp } from './service-http.ts';
import { base64 } from './web-bytes.ts';

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
  readonly backend?: Backend;
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
  o: ShareOptions & { readonly signal?: AbortSignal | undefined },
  sealing: Sealing = { recipients: shareRecipients(o) },
): Promise<Shared> {
  const { record, secret } = await sealParcel(parcel, { password: o.password, ...sealing });
  const { expiresAt } = o;
  const request: ShareRequest = {
    record: base64(record),
    files: [...files],
    password: o.password !== undefined,
    ...membersOf(ShareTerms, o),
    expiresAt: expiresAt === undefined ? undefined : new Date(expiresAt).toISOString(),
  };
  const share = await http.json(Share, {
    method: 'POST',
    path: 'v1/shares',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(request),
    signal: o.signal,
  });
  return { link: printLink({ kind: 'share', service: http.url, id: share.id, secret }), share };
}
