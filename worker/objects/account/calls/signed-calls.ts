/** Requests with a signed URL, as the Worker asks the account's object about them. */
import * as v from 'valibot';
import { maxSignedSeconds, SignedClaims } from '../../../../shared/api.ts';
import { isSignedBy, parseSignedToken, webProvider } from '../../../../shared/crypto/index.ts';
import { err, type Failure, type Result } from '../../result.ts';
import type { FileRecord } from '../files/file-rows.ts';
import type { Claim } from '../uploads/claims.ts';
import { AccountCalls } from './account-calls.ts';

/**
 * Key checked in place of an unknown one, which costs the same time as a wrong signature: the base
 * point of the curve.
 */
const noSigner = new Uint8Array(32).fill(0x66).with(0, 0x58);

/** A download. `hash`: of the API key that signed. `isOnce`: the URL may be used once. */
export type SignedRead = { hash: string; file: FileRecord; isOnce: boolean };

/** An upload that may begin. `maxBytes`: the most that its body may have. */
export type SignedStore = { hash: string; mode: FileRecord['mode']; maxBytes: number | undefined; claim: Claim };

type Verified = { hash: string; keyId: string; claims: SignedClaims; expiresAt: number };

/** Checks signed URLs: signature, API key, scope, expiry and use. A URL ends with its key. */
export class SignedCalls extends AccountCalls {
  /**
   * Lets a download begin. @param use whether that uses up a URL that may be used once
   * @returns `unauthorized`, `insufficient_scope`, `forbidden` where the URL is signed for
   * something else, `invalid_request`, `not_found`, `content_denied`; `gone` where it has expired
   * or was used
   */
  async read(token: string, { use }: { use: boolean }): Promise<Result<SignedRead>> {
    const verified = this.#verify(token);
    if (!verified.ok) return verified;
    const { files, claims: uses, alarm } = this.context;
    const { hash, keyId: apiKey, claims, expiresAt } = verified;
    if (claims.method !== 'GET') return signedFor(claims);
    const once = claims.jti === undefined ? undefined : { apiKey, name: signedUrlName(claims.jti), expiresAt };
    if (once !== undefined && use) await alarm.by(expiresAt);
    return this.context.transaction((): Result<SignedRead> => {
      const found = files.readable(claims.file.toLowerCase());
      if (!found.ok) return found;
      const isSpent = once !== undefined && (use ? !uses.use(once) : uses.isUsed(once));
      if (isSpent) return err('gone', 'this URL was already used');
      return { ok: true, hash, file: found.file, isOnce: once !== undefined };
    });
  }

  /** Lets an upload begin: its claim makes one file of all attempts. Fails as `read`. */
  async store(token: string): Promise<Result<SignedStore>> {
    const verified = this.#verify(token);
    if (!verified.ok) return verified;
    const { hash, keyId: apiKey, claims, expiresAt } = verified;
    if (claims.method !== 'POST') return signedFor(claims);
    const once = { apiKey, name: signedUrlName(claims.jti), expiresAt };
    const claim = { ...once, route: 'signed', fingerprint: '.' };
    return { ok: true, hash, mode: claims.mode, maxBytes: claims.bytes, claim };
  }

  #verify(text: string): Result<Verified> {
    const { row, keys, now } = this.context;
    const token = parseSignedToken(text);
    if (token?.alg === 'HS256')
      return err('gone', 'URLs that were signed with an earlier version have ended: sign it again');
    const key = token && row.open && keys.signerOf(token.keyId);
    const older = 'the API key of this URL is from an earlier version: send GET /v1/account with it once';
    if (key?.signer === null) return err('unauthorized', older);
    const isGenuine = token !== undefined && isSignedBy(key?.signer ?? noSigner, token);
    if (token === undefined || key === undefined || !isGenuine)
      return err('unauthorized', 'the signature of the URL is wrong, or its API key was revoked or has expired');
    const parsed = v.safeParse(SignedClaims, token.claims);
    if (!parsed.success) return err('invalid_request', 'the claims of the URL are not those of a signed URL');
    const claims = parsed.output;
    const { hash } = key;
    const caller = this.context.authorize(hash, claims.method === 'GET' ? 'read' : 'write');
    if (!caller.ok) return caller;
    const expiresAt = claims.exp * 1000;
    if (expiresAt <= now()) return err('gone', 'this URL has expired');
    if (expiresAt > now() + maxSignedSeconds * 1000)
      return err('invalid_request', `a signed URL lasts at most ${maxSignedSeconds / 86_400} days`);
    return { ok: true, hash, keyId: token.keyId, claims, expiresAt };
  }
}

function signedFor({ method }: SignedClaims): Failure {
  return err('forbidden', `this URL is signed for ${method}`);
}

/** The name of a URL in rows. A client may have put into it what is not for others. */
function signedUrlName(jti: string): string {
  return webProvider.sha256(new TextEncoder().encode(jti)).toHex();
}
