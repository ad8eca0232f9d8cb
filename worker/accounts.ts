/** Accounts: made and deleted by the operator, seen by their keys, recovered by who has the private key. */
import {
  NewAccount,
  Recover,
  scopes,
  type AccountAnswer,
  type AccountReceipt,
  type NewAccountAnswer,
} from '../shared/api.ts';
import {
  encrypt,
  generateKeyPair,
  identityFromPkcs8,
  newAccountId,
  newApiKey,
  parseRecipients,
  recipientFromSpki,
  sealPrivateKey,
  webBackend,
  type ApiKey,
  type Recipient,
} from '../shared/crypto/index.ts';
import { SealpinError } from '../shared/errors.ts';
import { settled } from './answer.ts';
import type { Ctx } from './app.ts';
import { fileHeaders } from './body/download.ts';
import { readJson } from './body/small.ts';
import { bearer, callerOf, writeEdgeKey } from './caller.ts';
import { keyAnswer } from './keys.ts';
import type { Account, AccountRecord } from './objects/account.ts';
import { keyIdOf, type NewKey } from './objects/registry.ts';

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

/** Makes an account with a key pair of its own and a first key with all scopes. */
export async function createAccount(c: Ctx): Promise<Response> {
  await requireOperator(c);
  const { label, recovery } = await readJson(c.req.raw, NewAccount);
  const recipient = recovery === undefined ? undefined : parseRecovery(recovery);
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
  const file = recipient === undefined ? null : await recoveryFile(pair.privatePem, recipient);
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

/** The account's private key, as an age file to its recovery key. It is ciphertext, so anybody may have it. */
export async function readRecovery(c: Ctx): Promise<Response> {
  const { recovery } = await settled(namedAccount(c).object.recovery());
  return new Response(recovery, {
    headers: {
      ...fileHeaders,
      'Content-Type': 'application/octet-stream',
      'Content-Disposition': 'attachment; filename="recovery.age"',
    },
  });
}

/** Gives a new key with all scopes to who shows the account's private key, and revokes the others. */
export async function recoverAccount(c: Ctx): Promise<Response> {
  const { object } = namedAccount(c);
  const { privateKey, label } = await readJson(c.req.raw, Recover);
  const { spki } = await settled(object.recovery());
  const pkcs8 = parsePrivatePem(privateKey);
  if (!(await opens(pkcs8, spki))) throw new SealpinError('forbidden', 'this is not the private key of the account');
  const id = c.req.param('id')!;
  const { apiKey, key } = await newFullKey({ id, spki }, pkcs8, label ?? 'recovered');
  await writeEdgeKey(c.env, id, key);
  const { account } = await settled(object.recover(key));
  return accountCreated(c, account, apiKey, key);
}

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
  return { id, label, publicKey: publicPem(account.spki), createdAt: new Date(createdAt).toISOString() };
}

/** The text of a `public.key` file. */
function publicPem(spki: Uint8Array): string {
  const lines = spki
    .toBase64()
    .match(/.{1,64}/g)!
    .join('\n');
  return `# recipient: ${recipientFromSpki(spki).text}\n-----BEGIN PUBLIC KEY-----\n${lines}\n-----END PUBLIC KEY-----\n`;
}

/** @throws key_invalid */
function parsePrivatePem(text: string): Uint8Array {
  const base64 = /-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END PRIVATE KEY-----/.exec(text)?.[1];
  try {
    return Uint8Array.fromBase64(base64 ?? '-');
  } catch {
    throw new SealpinError(
      'key_invalid',
      'privateKey has to be what the recovery file holds: -----BEGIN PRIVATE KEY-----',
    );
  }
}

/** Whether a private key opens what was encrypted to a public one. */
async function opens(pkcs8: Uint8Array, spki: Uint8Array): Promise<boolean> {
  const probe = crypto.getRandomValues(new Uint8Array(32));
  const stanza = await recipientFromSpki(spki).wrap(probe, 'sealpin', webBackend);
  const opened = await identityFromPkcs8(pkcs8).unwrap([stanza], 'sealpin', webBackend);
  return opened !== undefined && crypto.subtle.timingSafeEqual(opened, probe);
}

/** @throws key_invalid when the text is not exactly one public key */
function parseRecovery(text: string): Recipient {
  const [recipient, ...more] = parseRecipients(text);
  if (recipient === undefined || more.length > 0)
    throw new SealpinError('key_invalid', 'recovery has to be one public key');
  return recipient;
}

async function recoveryFile(privatePem: string, recipient: Recipient): Promise<Uint8Array> {
  const { stream } = await encrypt(new Blob([privatePem]).stream(), { format: 'age', recipients: [recipient] });
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function namedAccount(c: Ctx): { id: string; object: DurableObjectStub<Account> } {
  const id = c.req.param('id') ?? '';
  if (!/^[0-9A-Za-z]{22}$/.test(id)) throw new SealpinError('not_found');
  return { id, object: c.env.ACCOUNT.getByName(id) };
}

/** Compares in constant time, also in the length: over digests. */
async function isSame(one: string, other: string): Promise<boolean> {
  const digest = (text: string): Promise<ArrayBuffer> =>
    crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return crypto.subtle.timingSafeEqual(await digest(one), await digest(other));
}
