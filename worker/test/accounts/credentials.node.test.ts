/**
 * Every credential, changed a little: a token opens nothing unless each of its characters is right.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { generateKeyPair, open, parseIdentities } from '../../../shared/crypto/index.ts';
import {
  adminToken,
  metricsToken,
  restoreToken,
  rpcToken,
  sharedService,
  withSettings,
  type Service,
} from '../../../testkit/service.ts';
import { bytesOf, client, problemOf, signedPath, type Init } from '../../../testkit/api-client.ts';
import { accountObject, newOwner, type Owner } from '../stored-state.ts';

let service: Service;
let owner: Owner;
beforeAll(async () => {
  service = await sharedService();
  owner = await newOwner(service);
});

/**
 * Texts beside the right one: one character changed, at each position; as long and all different;
 * shorter; longer; nothing.
 */
function beside(right: string): string[] {
  const other = (character: string): string => {
    if (/[0-9]/.test(character)) return character === '9' ? '0' : String(Number(character) + 1);
    if (/[a-f]/.test(character)) return character === 'f' ? 'a' : String.fromCharCode(character.charCodeAt(0) + 1);
    return character === 'b' ? 'c' : 'b';
  };
  const characters = Array.from(right);
  return [
    ...characters.map((character, at) => characters.with(at, other(character)).join('')),
    characters.map(other).join(''),
    right.slice(0, -1),
    right.slice(1),
    `${right}0`,
    `0${right}`,
    right.toUpperCase() === right ? right.toLowerCase() : right.toUpperCase(),
    '',
  ];
}

/**
 * Asks with the right text, which must be taken, and with each one beside it, of which none may be.
 */
async function onlyTakes(right: string, ask: (shown: string) => Promise<Response>): Promise<void> {
  const wrong = beside(right);
  expect(new Set(wrong).size).toBeGreaterThan(right.length + 4);
  expect(wrong).not.toContain(right);
  const statuses = await Promise.all(
    wrong.map(async (shown) => {
      const { status, body } = await ask(shown);
      await body?.cancel();
      return status;
    }),
  );
  const taken = wrong.filter((_, index) => ![400, 401, 403, 404].includes(statuses[index] ?? 0));
  expect(taken, statuses.join(' ')).toEqual([]);
  expect([200, 201, 400]).toContain((await ask(right)).status);
}

/**
 * An account that can be recovered: its first API key, and the text of its opened recovery file.
 */
async function recoverable(): Promise<{ id: string; apiKey: string; text: string }> {
  const pair = await generateKeyPair();
  const operator = client(service.url, adminToken);
  const { account, apiKey } = await operator.createAccount({ label: 'x', recovery: pair.recipient });
  const { id } = account;
  const file = await open(new Blob([await bytesOf(operator.ask('getRecoveryFile', { id }))]).stream());
  if (file.kind !== 'age') throw new Error(file.kind);
  const text = await new Response(await file.decrypt(parseIdentities(pair.privatePem))).text();
  return { id, apiKey, text };
}

const bearer = (token: string, path: string, init: Init = {}): Promise<Response> =>
  fetch(`${service.url}${path}`, { ...init, headers: { Authorization: `Bearer ${token}`, ...init.headers } });

describe('one wrong character is enough to be refused', () => {
  it('in the operator’s token', () =>
    onlyTakes(adminToken, (token) => client(service.url, token).ask('listAccounts', { limit: 1 })));

  it('in the token for metrics, which is not the operator’s', async () => {
    await onlyTakes(metricsToken, (token) => client(service.url, token).ask('getMetrics'));
    for (const [token, operationId] of [
      [adminToken, 'getMetrics'],
      [restoreToken, 'getMetrics'],
      [metricsToken, 'listAccounts'],
      [restoreToken, 'listAccounts'],
    ] as const)
      expect(await problemOf(client(service.url, token).ask(operationId))).toBe('401 unauthorized');
  });

  it('in the token for restoring, beside the operator’s', async () => {
    const restore = (token: string, admin = adminToken): Promise<Response> =>
      client(service.url, admin, token === '' ? {} : { 'Sealpin-Restore': token }).ask('restoreAccount', {
        id: owner.id,
      });
    const asked = await Promise.all(beside(restoreToken).map((token) => problemOf(restore(token))));
    expect(asked.filter((problem) => !problem.startsWith('401 '))).toEqual([]);
    expect(await problemOf(restore(restoreToken, metricsToken))).toBe('401 unauthorized');
    expect(await problemOf(restore(restoreToken, restoreToken))).toBe('401 unauthorized');
    expect(await problemOf(restore(restoreToken))).toBe('400 invalid_request');
  });

  it('in an API key', () => onlyTakes(owner.call.apiKey, (key) => bearer(key, '/v1/account')));

  it('in a signed URL', async () => {
    const { fileId } = await owner.call.store('plain', 'x');
    const path = await signedPath(owner.call.apiKey, { method: 'GET', file: fileId });
    const at = path.lastIndexOf('/') + 1;
    await onlyTakes(path.slice(at), (token) => fetch(`${service.url}${path.slice(0, at)}${token}`));
    await onlyTakes(owner.id, (id) => fetch(`${service.url}${path.replace(owner.id, id)}`));
  });

  it('in the secret of a recovery file', async () => {
    const { id, text } = await recoverable();
    const secret = /^# recovery: (\S+)$/m.exec(text)?.[1] ?? '';
    expect(secret).toHaveLength(43);
    await onlyTakes(secret, (shown) =>
      client(service.url).ask('recoverAccount', { id, privateKey: text.replace(secret, shown) }),
    );
  });

  it('in the ID of a share, and of an upload', async () => {
    const request = { record: 'AAAA', files: [], password: false, opens: 1 };
    const { id } = await owner.call.createShare(request);
    // Without an ID the path is that of the list, which takes no such key.
    await onlyTakes(id, (shown) => fetch(`${service.url}/v1/shares/${shown}/open`, { method: 'POST' }));
    const tus = { 'Tus-Resumable': '1.0.0' };
    const headers = { ...tus, 'Upload-Length': '5' };
    const begun = await owner.call.ask('createUploadPlain', {}, { headers });
    const upload = new URL(begun.headers.get('Location') ?? '', service.url).pathname;
    await Promise.all(
      beside(owner.call.apiKey).map(async (key) => {
        const { status } = await bearer(key, upload, { method: 'HEAD', headers: tus });
        expect(status).toBe(401);
      }),
    );
    const uploadId = upload.slice(upload.lastIndexOf('/') + 1);
    const ids = beside(uploadId).filter((each) => each !== '' && each.toLowerCase() !== uploadId);
    const found = ids.map(
      async (each) => (await owner.call.ask('getUpload', { uploadId: each }, { headers: tus })).status,
    );
    expect(new Set(await Promise.all(found))).toEqual(new Set([404]));
  });

  it('in the token of the built-in node', () =>
    onlyTakes(rpcToken, (token) =>
      fetch(`${service.node}/api/v0/version`, { method: 'POST', headers: { Authorization: `Bearer ${token}` } }),
    ));
});

it('what rows hold is no credential: not as an API key, nor as the secret of a recovery', async () => {
  const { id, apiKey, text } = await recoverable();
  const call = client(service.url, apiKey);
  const headers = { 'Idempotency-Key': 'name of the request', 'Content-Type': 'text/plain' };
  const { fileId } = await call.storePlain({}, { headers, body: 'x' });
  const once = await signedPath(apiKey, { method: 'GET', file: fileId, jti: 'name of the URL' });
  await bytesOf(client(service.url, '')(once));
  await call.ask('createUploadPlain', {}, { headers: { 'Tus-Resumable': '1.0.0', 'Upload-Length': '5' } });
  const tables = ['account', 'api_key', 'idempotency', 'signed_use', 'upload'];
  const object = accountObject(service, id);
  const rows = (await Promise.all(tables.map((table) => object.rows(table)))).flat();
  expect(rows).toHaveLength(tables.length);
  const values = rows
    .flatMap((row) => Object.values(row))
    .flatMap((value) => {
      if (typeof value === 'string') return [value];
      if (!(value instanceof ArrayBuffer)) return [];
      return (['hex', 'base64', 'latin1'] as const).map((encoding) => Buffer.from(value).toString(encoding));
    });
  const stored = values.filter((value) => /^[!-~]+$/.test(value) && value.length > 15);
  expect(stored.length).toBeGreaterThan(10);
  for (const secret of ['name of the request', 'name of the URL', apiKey.slice(25, 68)])
    expect(values.filter((value) => value.includes(secret))).toEqual([]);
  const recover = (value: string): Promise<Response> => {
    const privateKey = text.replace(/^# recovery: .*$/m, `# recovery: ${value}`);
    return client(service.url).ask('recoverAccount', { id, privateKey });
  };
  await Promise.all(
    stored.flatMap((value) => [
      expect(problemOf(client(service.url, value).ask('getAccount'))).resolves.toBe('401 unauthorized'),
      expect(problemOf(recover(value))).resolves.toBe('403 forbidden'),
    ]),
  );
});

describe('tokens', () => {
  it('that are equal to another secret open nothing', async () => {
    const equal = client(service.url, adminToken, withSettings({ METRICS_TOKEN: adminToken, RESTORE_TOKEN: rpcToken }));
    const alsoEqual = client(service.url, '12345', withSettings({ METRICS_TOKEN: '12345', ADMIN_TOKEN: 12345 }));
    for (const operator of [equal, alsoEqual])
      for (const operationId of ['getMetrics', 'listAccounts'])
        expect(await problemOf(operator.ask(operationId))).toBe('500 misconfigured');
  });

  it('that are not set open nothing, and the value of another variable does not either', async () => {
    const headers = { 'Sealpin-Restore': rpcToken };
    const ask = (settings: Record<string, string>): Promise<Response> =>
      client(service.url, adminToken, settings).ask('restoreAccount', { id: owner.id }, { headers, body: '{}' });
    const unset = withSettings({ METRICS_TOKEN: '', RESTORE_TOKEN: '' });
    for (const token of ['', adminToken, metricsToken])
      expect(await problemOf(client(service.url, token, unset).ask('getMetrics'))).toBe('404 not_found');
    expect(await problemOf(ask(unset))).toBe('404 not_found');
    expect(await problemOf(ask(withSettings({ RESTORE_TOKEN: rpcToken })))).toBe('500 misconfigured');
  });
});
