/**
 * State of a service before it is fuzzed, so that requests with random values also meet something.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { NewAccountResponse } from '../../../shared/api.ts';
import { generateKeyPair, open, parseIdentities } from '../../../shared/crypto/index.ts';
import { adminToken, rpcToken, startService, type Service } from '../../../testkit/service.ts';
import { startNode } from '../../../testkit/node.ts';
import { client, signedPath, type Client } from '../../../testkit/api-client.ts';

/**
 * Starts a service with two pinning services, `node` and `other`, between which files can be moved.
 * @param dir of what they store
 */
export async function startFuzzed(dir: string): Promise<Pick<Service, 'url' | 'close'>> {
  const ids = ['node', 'other'];
  const nodes = await Promise.all(ids.map((id) => startNode({ dir: join(dir, id), token: rpcToken })));
  const rows = nodes.map(({ url }, n) => ({ id: ids[n], type: 'kubo', url, tokenSecret: 'KUBO_TOKEN' }));
  const service = await startService({
    vars: { PINNING_SERVICES: JSON.stringify(rows) },
    ...(nodes[0] && { node: nodes[0] }),
  });
  return {
    url: service.url,
    async close() {
      await service.close();
      await Promise.all(nodes.map((node) => node.close()));
    },
  };
}

/** Number of copies of what a request uses up. */
const copies = 12;
/**
 * Number of unfinished uploads of each kind: an API key has 10 at most, and the fuzzer begins some,
 * too.
 */
const uploads = 3;

/**
 * Fills a service, and writes what is there as dictionaries of schemathesis.toml: one file of each
 * name, with a value in each line.
 * @returns the API key of the account that most requests are about, with all scopes
 */
export async function fillForFuzzing(url: string, directory: string): Promise<string> {
  // Longer than the run.
  const exp = Math.floor(Date.now() / 1000) + 86_400;
  const operator = client(url, adminToken);
  const main = await newAccount(operator, {});
  const owner = client(url, main.apiKey);
  // What the fuzzer holds no key of, it cannot delete.
  const other = await newAccount(operator, {});
  const handedOut = await client(url, other.apiKey).store('plain', 'handed out');
  const disposable = await times(copies, async () => await newAccount(operator, {}));
  const recoverable = await times(3, async () => await newRecoverable(url, operator));
  const kept = await owner.store('plain', 'kept');
  const denied = await owner.store('plain', 'denied');
  const deletable = await times(copies, async (n) => (await owner.store('plain', `to be deleted ${n}`)).fileId);
  await owner.deleteFiles({ files: deletable.slice(0, 3) });
  await operator.createMigration({ from: 'other', to: 'node' });
  const files = [kept.fileId, (await owner.store('encrypted', 'kept')).fileId];
  const dictionaries: Record<string, readonly string[]> = {
    account: [main.account.id, ...recoverable.map(({ id }) => id)],
    disposableAccount: disposable.map(({ account }) => account.id),
    signer: [main.account.id],
    downloadSigner: [other.account.id],
    recoverableAccount: recoverable.map(({ id }) => id),
    recoveryText: recoverable.map(({ text }) => text),
    key: await times(copies, async () => await newKey(owner)),
    file: files,
    deletableFile: deletable.slice(3),
    deletedFile: deletable.slice(0, 3),
    upload: await times(uploads, async () => await newUpload(owner)),
    deletableUpload: await times(uploads, async () => await newUpload(owner)),
    share: await times(copies, async () => await newShare(owner, files)),
    deletableShare: await times(copies, async () => await newShare(owner, files)),
    download: [lastPart(await signedPath(other.apiKey, { method: 'GET', file: handedOut.fileId, exp }))],
    store: await times(copies, async () =>
      lastPart(await signedPath(main.apiKey, { method: 'POST', mode: 'plain', jti: crypto.randomUUID(), exp })),
    ),
    cid: [kept.cid],
    deniedCid: [denied.cid],
    from: ['other'],
    to: ['node'],
  };
  for (const [name, values] of Object.entries(dictionaries))
    await writeFile(join(directory, `${name}.txt`), values.map((value) => `${JSON.stringify(value)}\n`).join(''));
  return main.apiKey;
}

async function newAccount(operator: Client, o: { recovery?: string }): Promise<NewAccountResponse> {
  return await operator.createAccount({ label: 'fuzzed', ...o });
}

/** An account with the text of its opened recovery file. */
async function newRecoverable(url: string, operator: Client): Promise<{ id: string; text: string }> {
  const pair = await generateKeyPair();
  const { account } = await newAccount(operator, { recovery: pair.publicPem });
  const { body } = await client(url).ask('getRecoveryFile', { id: account.id });
  if (body === null) throw new Error('there is no recovery file');
  const file = await open(body);
  if (file.kind !== 'age') throw new Error(file.kind);
  return { id: account.id, text: await new Response(await file.decrypt(parseIdentities(pair.privatePem))).text() };
}

async function newKey(owner: Client): Promise<string> {
  const { key } = await owner.createKey({ label: 'k', scopes: ['read'] });
  return key.id;
}

async function newUpload(owner: Client): Promise<string> {
  const headers = { 'Tus-Resumable': '1.0.0', 'Upload-Length': '1000' };
  const response = await owner.ask('createUploadPlain', {}, { headers });
  if (response.status !== 201) throw new Error(await response.text());
  return lastPart(response.headers.get('Location') ?? '');
}

async function newShare(owner: Client, files: readonly string[]): Promise<string> {
  const record = Buffer.from('sealed').toString('base64');
  const share = { record, files, password: false, opens: 100 };
  return (await owner.createShare(share)).id;
}

function lastPart(path: string): string {
  return path.split('/').at(-1) ?? '';
}

async function times<T>(count: number, make: (n: number) => Promise<T>): Promise<T[]> {
  return await Promise.all(Array.from({ length: count }, (_, n) => make(n)));
}
