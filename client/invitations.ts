/** Invitations: links by which somebody without an account sends files, for a while. */
import {
  ApiKeyList,
  type ApiKeyRecord,
  type Revoked,
  type Share,
  type ShareList,
  type ShareReceipt,
} from '../shared/api.ts';
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import { parseLinkOf, printLink } from '../shared/link/index.ts';
import { createLimitedKey, revokeKeyById, type KeyTerms } from './limited-key.ts';
import type { Outgoing, SendingOptions } from './sending.ts';
import { serviceHttp, type Fetch, type ServiceHttp } from './service-http.ts';
import {
  changeShare,
  revokeShare,
  sendFiles,
  sharesPage,
  type PageOptions,
  type Sent,
  type ShareChanges,
  type ShareOptions,
} from './sharing.ts';

/**
 * An invitation that was made. `link` is for the guest; nobody can make it again. `key.id` revokes
 * it.
 */
export type CreatedInvitation = { readonly link: string; readonly key: ApiKeyRecord };

/**
 * The invitations of an account. Every function throws what the service refuses with, by its code,
 * and as `connect` says.
 */
export interface Invitations {
  /**
   * Makes an invitation: an API key that sends what it stores, and sees and takes back what it
   * sent. Needs an API key with `keys`, `write`, `share` and `delete`.
   * @param o.label what the list calls it
   * @param o.expiresAt when it ends, with all of its links; in 90 days, or when the caller's key
   * expires before that, if undefined
   * @param o.limits what may be stored by it at a time: files (200 if undefined), bytes (1 GiB if
   * undefined), and bytes of one file; the limits of the caller's key where those are lower
   * @throws SealpinError `unsupported_version` where the service is older than invitations
   * @example
   * const { link } = await connection.invitation.create({ label: 'Ann', limits: { bytes: 1e9 } });
   */
  create(o: KeyTerms): Promise<CreatedInvitation>;
  /**
   * Lists invitations that are not revoked, as API keys; one that has expired is among them.
   * @example
   * for (const { label, expiresAt } of await connection.invitation.list()) console.log(label, expiresAt);
   */
  list(o?: { signal?: AbortSignal | undefined }): Promise<ApiKeyRecord[]>;
  /** Ends an invitation, by the ID of its key: its links end, and what was stored for them. */
  revoke(keyId: string, o?: { signal?: AbortSignal | undefined }): Promise<Revoked>;
}

/** The invitations of a connection. */
export function invitations(http: ServiceHttp): Invitations {
  return {
    async create(terms) {
      const { key, apiKey } = await createLimitedKey(http, 'send', terms).catch((error: unknown) => {
        if (!isSealpinError(error, 'invalid_request') || !error.message.startsWith('scopes')) throw error;
        throw new SealpinError('unsupported_version', 'the service is older than invitations', {
          hint: 'ask its operator to update it',
          cause: error,
        });
      });
      return { link: printLink({ kind: 'invitation', service: http.url, apiKey }), key };
    },
    async list({ signal } = {}) {
      const { keys } = await http.json(ApiKeyList, { path: 'v1/keys', signal });
      return keys.filter(({ scopes }) => scopes.includes('send'));
    },
    revoke: (keyId, { signal } = {}) => revokeKeyById(http, keyId, signal),
  };
}

/** A guest's part of a connection: what the API key of an invitation permits. */
export interface Guest {
  /**
   * Sends files as `send` of a connection does. They stay no longer than the link, whose
   * `expiresAt` is in 7 days where it is undefined, or earlier: after the most days that the
   * service permits, and when the invitation ends.
   * @example
   * const { link } = await connectAsGuest(invitation).send([...input.files], { opens: 1 });
   */
  send(files: Outgoing | readonly Outgoing[], options?: ShareOptions & SendingOptions): Promise<Sent>;
  /** A page of the links that were made by this invitation, newest first. */
  shares(options?: PageOptions): Promise<ShareList>;
  /** Changes how often and how long a link opens; its files stay as long. */
  changeShare(shareId: string, changes: ShareChanges): Promise<Share>;
  /** Takes a link back, with the files that were stored for it. */
  unshare(shareId: string, options?: { signal?: AbortSignal | undefined }): Promise<ShareReceipt>;
}

/**
 * Connects by the link of an invitation. Nothing is sent yet.
 * @throws SealpinError `link_invalid`, also for the link of something else; `unsupported_version`
 * @example
 * const { shares } = await connectAsGuest(invitation).shares();
 */
export function connectAsGuest(link: string, { fetch }: { fetch?: Fetch | undefined } = {}): Guest {
  const { service, apiKey } = parseLinkOf(link, 'invitation').link;
  const http = serviceHttp({ service, apiKey, fetch });
  return {
    send: (files, options = {}) => sendFiles(http, files, options, options),
    shares: (options = {}) => sharesPage(http, options),
    changeShare: (shareId, changes) => changeShare(http, shareId, changes),
    unshare: (shareId, { signal } = {}) => revokeShare(http, shareId, signal),
  };
}
