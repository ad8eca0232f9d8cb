/** `POST /v1/accounts`: the operator makes an account and its first API key. */
import * as v from 'valibot';
import { NewAccount, scopes, type ApiKeyRecord, type NewAccountAnswer } from '../shared/api.ts';
import { generateKeyPair, newAccountId, newApiKey, sealPrivateKey } from '../shared/crypto/index.ts';
import { SealpinError } from '../shared/errors.ts';
import { settled } from './answer.ts';
import type { Ctx } from './app.ts';
import { readJson } from './body/small.ts';
import { bearer, writeEdgeKey } from './caller.ts';
import { keyIdOf, type KeyRecord, type NewKey } from './objects/registry.ts';

/**
 * Lets only the operator on. Without the secret `ADMIN_TOKEN` there is no operator, and nothing to be found.
 * @throws not_found, unauthorized
 */
export async function requireOperator(c: Ctx): Promise<void> {
  const token = c.env.ADMIN_TOKEN ?? '';
  if (token === '') throw new SealpinError('not_found');
  if (!(await sameSecret(bearer(c) ?? '', token))) {
    throw new SealpinError('unauthorized', 'the operator’s token is missing or wrong', { hint: 'send Authorization: Bearer and the ADMIN_TOKEN' });
  }
}

/** Makes an account with a key pair of its own and a first key with all scopes. */
export async function createAccount(c: Ctx): Promise<Response> {
  await requireOperator(c);
  const wanted = v.safeParse(NewAccount, await readJson(c.req.raw));
  if (!wanted.success) throw new SealpinError('invalid_request', v.summarize(wanted.issues));
  const id = newAccountId();
  const pair = await generateKeyPair();
  const createdAt = Date.now();
  const apiKey = await newApiKey(id);
  const keyId = keyIdOf(apiKey.hash);
  const key: NewKey = {
    id: keyId,
    hash: apiKey.hash,
    label: wanted.output.label,
    scopes: [...scopes],
    createdAt,
    expiresAt: null,
    createdBy: null,
    sealed: await sealPrivateKey(apiKey, { id: keyId, pkcs8: pair.pkcs8, spki: pair.spki }),
  };
  // KV first, then the object, which commits: a key that only KV knows opens nothing.
  await writeEdgeKey(c.env, id, key);
  const account = { id, label: wanted.output.label, spki: pair.spki, createdAt };
  await settled(c.env.ACCOUNT.getByName(id).create({ ...account, recoveryKey: null, recovery: null }, key));
  const body: NewAccountAnswer = {
    account: { id, label: account.label, publicKey: pair.publicPem, createdAt: new Date(createdAt).toISOString() },
    key: keyRecord(id, key),
    apiKey: apiKey.text,
  };
  return c.json(body, 201, { 'Cache-Control': 'no-store' });
}

/** A key's record in the shape of the API. */
export function keyRecord(account: string, key: KeyRecord): ApiKeyRecord {
  return {
    id: key.id,
    account,
    label: key.label,
    scopes: key.scopes,
    createdAt: new Date(key.createdAt).toISOString(),
    ...(key.expiresAt === null ? {} : { expiresAt: new Date(key.expiresAt).toISOString() }),
    createdBy: key.createdBy,
  };
}

/** Compares in constant time, also in the length: over digests. */
async function sameSecret(one: string, other: string): Promise<boolean> {
  const digest = (text: string): Promise<ArrayBuffer> => crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return crypto.subtle.timingSafeEqual(await digest(one), await digest(other));
}
