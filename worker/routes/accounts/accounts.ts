/**
 * Accounts: created and deleted by the operator, read by their keys, recovered with their recovery
 * file.
 */
import * as shapes from '../../../shared/api.ts';
import {
  generateKeyPair,
  isAccountId,
  isKeyPair,
  newAccountId,
  signerOf,
  type ApiKey,
} from '../../../shared/crypto/index.ts';
import { SealpinError } from '../../../shared/errors.ts';
import { unwrap } from '../../objects/result.ts';
import { parseQuery, type Ctx } from '../../http/app.ts';
import { fileHeaders } from '../../http/response-body.ts';
import { readJson } from '../../http/json-body.ts';
import type { Principal } from '../../auth/authenticate.ts';
import { listed } from '../../objects/account/account-list.ts';
import { refuseIdempotencyKey } from '../../upload/idempotency-key.ts';
import { accountSummary, accountView, keyView, rotationView } from './account-view.ts';
import { newKey } from './keys.ts';
import type { Account } from '../../objects/account/account.ts';
import type { AccountRecord } from '../../objects/account/account-row.ts';
import { isSameHash, type NewKey } from '../../objects/account/keys/key-rows.ts';
import { isInvitation } from '../../objects/account/keys/invitation.ts';
import { newRecovery, parseRecoveryKey, parseRecoveryText } from '../../objects/account/keys/recovery-file.ts';

/** Creates an account with its own key pair and a first API key with all scopes. */
export async function createAccount(c: Ctx): Promise<Response> {
  refuseIdempotencyKey(c);
  const { label, recovery, quotaBytes = null } = await readJson(c.req.raw, shapes.NewAccount);
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
  const { apiKey, key } = await newFullKey({ id, ...pair }, label);
  const file = recipient === undefined ? null : await newRecovery(recipient, pair.pkcs8);
  await unwrap(c.env.ACCOUNT.getByName(id).create(account, file, key, quotaBytes));
  return accountCreated(c, account, apiKey, key);
}

/** A page of accounts in no order; one that comes or goes meanwhile may be missing. */
export async function listAccounts(c: Ctx): Promise<Response> {
  const { ids, cursor } = await listed(c.env.API_KEYS, parseQuery(c, shapes.AccountQuery));
  const accounts = await Promise.all(ids.map(async (id) => await c.env.ACCOUNT.getByName(id).administration.read()));
  return c.json<shapes.AccountList>({
    accounts: accounts.filter((account) => account.ok).map((account) => accountSummary(account)),
    cursor,
  });
}

/** Returns an account, and enters it in the list if it is missing there. */
export async function readAccountSummary(c: Ctx): Promise<Response> {
  const account = await unwrap(accountInPath(c).object.administration.read());
  return c.json<shapes.AccountSummary>(accountSummary(account));
}

/** Changes label, quota, whether the keys of the account work, or for pages of which origins. */
export async function changeAccount(c: Ctx): Promise<Response> {
  const changes = await readJson(c.req.raw, shapes.AccountChanges);
  const account = await unwrap(accountInPath(c).object.administration.change(changes));
  return c.json<shapes.AccountSummary>(accountSummary(account));
}

/** Deletes an account with its files and keys. */
export async function deleteAccount(c: Ctx): Promise<Response> {
  const { id, object } = accountInPath(c);
  const { files, keys, shares } = await unwrap(object.close(c.var.requestId));
  return c.json<shapes.AccountReceipt>({ account: id, files, keys, shares });
}

/** Returns the account of the API key, and the key's own record. */
export async function readAccount(c: Ctx, principal: Principal): Promise<Response> {
  const about = await unwrap(principal.account.about(principal.key.hash));
  const { canSign, account, usage, settings, key, sealed, allowance, previous, remaining } = about;
  if (!canSign) await unwrap(principal.account.keys.learnSigner(principal.key.hash, signerOf(principal.key)));
  const left = { files: allowance.files, bytes: allowance.bytes };
  const { quotaBytes } = settings;
  const seesUsage = key.scopes.includes('read');
  const { id, publicKey, label, createdAt } = accountView(account);
  const manages = seesUsage || key.scopes.includes('keys');
  return c.json<shapes.AccountDetails>({
    account: {
      id,
      publicKey,
      ...(!isInvitation(key) && { label }),
      ...(manages && { createdAt, recovery: account.recoveryKey ?? undefined }),
    },
    usage: seesUsage ? { files: usage.files, bytes: usage.bytes } : undefined,
    quotaBytes: seesUsage ? (quotaBytes ?? undefined) : undefined,
    rotation: previous === null ? undefined : rotationView(previous, remaining),
    key: { ...keyView(account.id, key), left, sealed: sealed?.toBase64() },
  });
}

/** Returns the recovery file. It is encrypted to the recovery key, so anybody may have it. */
export async function readRecovery(c: Ctx): Promise<Response> {
  const { recovery } = await unwrap(accountInPath(c).object.keys.recovery());
  return new Response(recovery.file, {
    headers: {
      ...fileHeaders,
      'Content-Type': 'application/octet-stream',
      'Content-Disposition': 'attachment; filename="recovery.age"',
    },
  });
}

/**
 * Recovers an account with the text of its opened recovery file: creates a key with all scopes,
 * revokes all others, and replaces the recovery file by one with a new secret.
 */
export async function recoverAccount(c: Ctx): Promise<Response> {
  const { id, object } = accountInPath(c);
  // Before the body: a request for an account that does not exist costs no more than this.
  const { spki, recovery } = await unwrap(object.keys.recovery());
  refuseIdempotencyKey(c);
  const { privateKey, label } = await readJson(c.req.raw, shapes.Recover);
  const shown = await parseRecoveryText(privateKey);
  if (recovery.secretHash === null) throw new SealpinError('forbidden', noSecret, { hint: noSecretHint });
  if (shown.secretHash === undefined) throw new SealpinError('forbidden', secretMissing, { hint: wholeFile });
  const isOurs = isKeyPair(shown.pkcs8, spki);
  if (!isSameHash(shown.secretHash, recovery.secretHash) || !isOurs)
    throw new SealpinError('forbidden', 'this is not the current recovery file of the account', { hint: currentFile });
  const { apiKey, key } = await newFullKey({ id, spki, pkcs8: shown.pkcs8 }, label ?? 'recovered');
  const next = await newRecovery(parseRecoveryKey(recovery.key), shown.pkcs8);
  const { account } = await unwrap(object.keys.recover(shown.secretHash, next, key));
  return accountCreated(c, account, apiKey, key);
}

const secretMissing = 'the private key alone does not recover an account: the line "# recovery: …" is missing';
const wholeFile = 'send the whole text of the opened recovery file';
const currentFile = 'each recovery replaces the file: get it again with GET /v1/accounts/:id/recovery';
const noSecret = 'the recovery file of this account has no secret: an older version wrote it, and it recovers nothing';
const noSecretHint = 'make a new account with a recovery key, and store the files there';

async function newFullKey(account: Parameters<typeof newKey>[0], label: string): ReturnType<typeof newKey> {
  return await newKey(account, { label, scopes: [...shapes.fullScopes], expiresAt: null, createdBy: null });
}

function accountCreated(c: Ctx, account: AccountRecord, apiKey: ApiKey, key: NewKey): Response {
  const body: shapes.NewAccountResponse = {
    account: accountView(account),
    key: keyView(account.id, key),
    apiKey: apiKey.text,
  };
  return c.json(body, 201);
}

/** The account that a path names. @throws not_found when it cannot be the id of one */
export function accountInPath(c: Ctx): { id: string; object: DurableObjectStub<Account> } {
  const id = c.req.param('id') ?? '';
  if (!isAccountId(id)) throw new SealpinError('not_found', 'there is no account with this ID');
  return { id, object: c.env.ACCOUNT.getByName(id) };
}
