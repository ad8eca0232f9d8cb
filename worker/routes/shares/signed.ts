/**
 * `/v1/accounts/:id/signed/:token`: one download or one upload by a URL that the holder of an API
 * key has signed.
 */
import { cancelQuietly } from '../../../shared/streams/cancel-quietly.ts';
import type { MiddlewareHandler } from 'hono';
import { isAccountId, keyIdOf } from '../../../shared/crypto/index.ts';
import { SealpinError } from '../../../shared/errors.ts';
import { isHead, type App, type Ctx } from '../../http/app.ts';
import type { Account } from '../../objects/account/account.ts';
import { unwrap } from '../../objects/result.ts';
import { readStored } from '../files/read.ts';
import { receiveUpload } from '../files/upload.ts';

/**
 * Returns the file of a signed URL as it is stored. What hands out no byte of it uses nothing up.
 */
export async function readSigned(c: Ctx): Promise<Response> {
  const { account, token } = signedBy(c);
  const { hash, file, isOnce } = await unwrap(account.signed.read(token, { use: false }));
  countFor(c, hash);
  const response = await readStored(c, file, () => unwrap(account.files.find(hash, file.fileId, { sealed: false })));
  if (isOnce && !isHead(c) && (response.status === 200 || response.status === 206))
    try {
      await unwrap(account.signed.read(token, { use: true }));
    } catch (error) {
      // Another request was first.
      await cancelQuietly(response.body, error);
      throw error;
    }
  return response;
}

/**
 * Stores the file of a signed URL, once: the URL itself says which attempts are the same upload.
 */
export async function storeSigned(c: Ctx): Promise<Response> {
  if (c.req.header('Idempotency-Key') !== undefined)
    throw new SealpinError('invalid_request', 'a signed URL stores one file, and takes no Idempotency-Key', {
      hint: 'leave the header out: the same URL can be sent again until it succeeds',
    });
  const { account, token } = signedBy(c);
  const { hash, mode, maxBytes, claim } = await unwrap(account.signed.store(token));
  countFor(c, hash);
  return await receiveUpload(c, { account, key: { hash } }, { mode, claim, limitBytes: maxBytes });
}

/** @throws unauthorized where there cannot be such an account, as where there is none */
function signedBy(c: Ctx): { account: DurableObjectStub<Account>; token: string } {
  const id = c.req.param('id') ?? '';
  if (!isAccountId(id)) throw new SealpinError('unauthorized');
  return { account: c.env.ACCOUNT.getByName(id), token: c.req.param('token') ?? '' };
}

/** Counts the request for the API key that signed the URL. */
function countFor(c: Ctx, hash: string): void {
  c.set('usedBy', { account: c.req.param('id') ?? '', keyId: keyIdOf(hash) });
}

/** The address is a secret: no page that shows a response hands it on. */
export const withoutReferrer: MiddlewareHandler<App> = async (c, next) => {
  await next();
  c.res.headers.set('Referrer-Policy', 'no-referrer');
};
