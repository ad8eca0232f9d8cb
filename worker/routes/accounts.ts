/** Accounts: created and deleted by the operator, read by their keys, recovered with their recovery file. */
import {
  NewAccount,
  Recover,
  scopes,
  type AccountAnswer,
  type AccountReceipt,
  type NewAccountAnswer,
} from '../../shared/api.ts';
import {
  encodePublicKeyFile,
  generateKeyPair,
  isAccountId,
  isKeyPair,
  newAccountId,
  newApiKey,
  sealPrivateKey,
  type ApiKey,
} from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { settled } from '../objects/result.ts';
import type { Ctx } from '../http/app.ts';
import { fileHeaders } from '../http/response-body.ts';
import { readJson } from '../http/json-body.ts';
import { bearer, callerOf, writeEdgeKey } from '../auth/authenticate.ts';
import { refuseIdempotencyKey } from '../upload/idempotency-key.ts';
import { keyAnswer } from './keys.ts';
import type { Account, AccountRecord } from '../objects/account.ts';
import { isSameHash, keyIdOf, type NewKey } from '../objects/key-registry.ts';
import { newRecovery, parseRecoveryKey, parseRecoveryText } from '../auth/recovery-file.ts';

/**
 * Lets only the operator on. Without the secret `ADMIN_TOKEN` there is no operator, and nothing to be found.
 * @throws not_found, unauthorized
 */
export async function requireOperator(c: Ctx): Promise<void> {
  const token = c.env.ADMIN_TOKEN ?? '';
  if (token === '') throw new SealpinError('not_found');
  if (!(await isSame(bearer(c) ?? '', token))) {
    throw new SealpinError('unauthorized', 'the operator’s token is missing or wrong', {
      hint: 'send Authorization: Bearer and the ADMIN_TOKEN',
    });
  }
}

/** Creates an account with a key pair of its own and a first key with all scopes. */
export async function createAccount(c: Ctx): Promise<Response> {
  await requireOperator(c);
  refuseIdempotencyKey(c);
  const { label, recovery } = await readJson(c.req.raw, NewAccount);
  const recipient = recovery === undefined ? undefined : parseRecoveryKey(recovery);
  const pair = await generateKeyPair();
  const id = newAccountId();
  const account: AccountRecord = {
    id,
    label,
    spki: pair.spki,
    recoveryKey: recipient?.text ?? null,
    createdAt: Date.now(),
  };
  const { apiKey, key } = await newFullKey(account, pair.pkcs8, label);
  const file = recipient === undefined ? null : await newRecovery(recipient, pair.pkcs8);
  // KV first, then the object, which commits: a key that only KV knows opens nothing.
  await writeEdgeKey(c.env, id, key);
  await settled(c.env.ACCOUNT.getByName(id).create(account, file, key));
  return accountCreated(c, account, apiKey, key);
}

/** Deletes an account with all of it. */
export async function deleteAccount(c: Ctx): Promise<Response> {
  await requireOperator(c);
  const { id, object } = namedAccount(c);
  const { files, keys } = await settled(object.close());
  const body: AccountReceipt = { account: id, files, keys };
  return c.json(body, 200, { 'Cache-Control': 'no-store' });
}

/** The account of the caller's key, and the key's own record. */
export async function readAccount(c: Ctx): Promise<Response> {
  const caller = await callerOf(c);
  const { account, usage, key, sealed } = await settled(caller.account.about(caller.key.hash));
  const body: AccountAnswer = {
    account: { ...accountAnswer(account), ...(account.recoveryKey === null ? {} : { recovery: account.recoveryKey }) },
    usage: { files: usage.files, bytes: usage.bytes },
    key: { ...keyAnswer(account.id, key), ...(sealed === null ? {} : { sealed: sealed.toBase64() }) },
  };
  return c.json(body, 200, { 'Cache-Control': 'no-store' });
}

/** The account's recovery file, encrypted to its recovery key: it is ciphertext, so anybody may have it. */
export async function readRecovery(c: Ctx): Promise<Response> {
  const { recovery } = await settled(namedAccount(c).object.recovery());
  return new Response(recovery.file, {
    headers: {
      ...fileHeaders,
      'Content-Type': 'application/octet-stream',
      'Content-Disposition': 'attachment; filename="recovery.age"',
    },
  });
}

/**
 * Recovers an account with the text of its opened recovery file: a new key with all scopes, all others revoked, and a recovery
 * file with a new secret in place of the one that was used.
 */
export async function recoverAccount(c: Ctx): Promise<Response> {
  const { id, object } = namedAccount(c);
  // Before the body: asking for an account that is not there costs no more than this.
  const { spki, recovery } = await settled(object.recovery());
  refuseIdempotencyKey(c);
  const { privateKey, label } = await readJson(c.req.raw, Recover);
  const shown = await parseRecoveryText(privateKey);
  if (recovery.secretHash === null) throw new SealpinError('forbidden', noSecret, { hint: noSecretHint });
  if (shown.secretHash === undefined) throw new SealpinError('forbidden', secretMissing, { hint: wholeFile });
  const isOurs = isKeyPair(shown.pkcs8, spki);
  if (!isSameHash(shown.secretHash, recovery.secretHash) || !isOurs)
    throw new SealpinError('forbidden', 'this is not the current recovery file of the account', { hint: currentFile });
  const { apiKey, key } = await newFullKey({ id, spki }, shown.pkcs8, label ?? 'recovered');
  const next = await newRecovery(parseRecoveryKey(recovery.key), shown.pkcs8);
  await writeEdgeKey(c.env, id, key);
  const { account } = await settled(object.recover(shown.secretHash, next, key));
  return accountCreated(c, account, apiKey, key);
}

const secretMissing = 'the private key alone does not recover an account: the line "# recovery: …" is missing';
const wholeFile = 'send the whole text of the opened recovery file';
const currentFile = 'each recovery replaces the file: get it again with GET /v1/accounts/:id/recovery';
const noSecret = 'the recovery file of this account has no secret: an older version wrote it, and it recovers nothing';
const noSecretHint = 'make a new account with a recovery key, and store the files there';

async function newFullKey(
  account: { id: string; spki: Uint8Array },
  pkcs8: Uint8Array,
  label: string,
): Promise<{ apiKey: ApiKey; key: NewKey }> {
  const apiKey = await newApiKey(account.id);
  const id = keyIdOf(apiKey.hash);
  const sealed = await sealPrivateKey(apiKey, { id, pkcs8, spki: account.spki });
  const key: NewKey = {
    id,
    hash: apiKey.hash,
    label,
    scopes: [...scopes],
    createdAt: Date.now(),
    expiresAt: null,
    createdBy: null,
    sealed,
  };
  return { apiKey, key };
}

function accountCreated(c: Ctx, account: AccountRecord, apiKey: ApiKey, key: NewKey): Response {
  const body: NewAccountAnswer = {
    account: accountAnswer(account),
    key: keyAnswer(account.id, key),
    apiKey: apiKey.text,
  };
  return c.json(body, 201, { 'Cache-Control': 'no-store' });
}

function accountAnswer(account: AccountRecord): NewAccountAnswer['account'] {
  const { id, label, createdAt } = account;
  return { id, label, publicKey: encodePublicKeyFile(account.spki), createdAt: new Date(createdAt).toISOString() };
}

function namedAccount(c: Ctx): { id: string; object: DurableObjectStub<Account> } {
  const id = c.req.param('id') ?? '';
  if (!isAccountId(id)) throw new SealpinError('not_found');
  return { id, object: c.env.ACCOUNT.getByName(id) };
}

/** Compares in constant time, also in the length: over digests. */
async function isSame(one: string, other: string): Promise<boolean> {
  const digest = (text: string): Promise<ArrayBuffer> =>
    crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return crypto.subtle.timingSafeEqual(await digest(one), await digest(other));
}
