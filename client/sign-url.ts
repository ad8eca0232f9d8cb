/** Signed URLs: one download or one upload for who has no API key. */
import { maxSignedSeconds, type SignedClaims } from '../shared/api.ts';
import { apiKeyHint, parseApiKey, signToken } from '../shared/crypto/index.ts';
import { SealpinError } from '../shared/errors.ts';
import { parseService } from './service-http.ts';

/** `fileId`: the file to read. `once`: by one request alone, also where its response is lost. */
export type SignedDownload = { readonly fileId: string; readonly once?: boolean | undefined };

/**
 * `store`: the mode of the file to be stored, of which there will be one. `maxBytes`: the most that
 * its body may have.
 */
export type SignedUpload = { readonly store: 'encrypted' | 'plain'; readonly maxBytes?: number | undefined };

/**
 * Signs a URL that reads one file (GET) or stores one (POST), on this machine: nothing is sent. The
 * URL is a secret, and ends with the API key. In encrypted mode a download is the container, which
 * the account's private key opens.
 * @param o.service its URL
 * @param o.apiKey with the scope `read` for a download, `write` for an upload
 * @param o.expiresIn seconds from now, at most 7 days
 * @throws SealpinError `unauthorized` for a text that is no API key, `invalid_request` for a time
 * beyond the limit, and as `connect`
 * @example
 * const url = await signUrl({ service, apiKey, expiresIn: 3600, store: 'encrypted', maxBytes: 1_000_000 });
 */
export async function signUrl(
  o: { service: string | URL; apiKey: string; expiresIn: number } & (SignedDownload | SignedUpload),
): Promise<string> {
  const key = await parseApiKey(o.apiKey);
  if (key === undefined) throw new SealpinError('unauthorized', 'the text is not an API key', { hint: apiKeyHint });
  if (!(o.expiresIn > 0 && o.expiresIn <= maxSignedSeconds))
    throw new SealpinError('invalid_request', `a signed URL lasts at most ${maxSignedSeconds / 86_400} days`);
  const exp = Math.floor(Date.now() / 1000 + o.expiresIn);
  const claims: SignedClaims =
    'store' in o
      ? { method: 'POST', mode: o.store, bytes: o.maxBytes, exp, jti: crypto.randomUUID() }
      : { method: 'GET', file: o.fileId, exp, ...(o.once === true ? { jti: crypto.randomUUID() } : {}) };
  return new URL(`v1/accounts/${key.account}/signed/${signToken(key, claims)}`, parseService(o.service)).href;
}
