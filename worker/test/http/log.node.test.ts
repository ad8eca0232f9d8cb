/** Operator's view: the state of the pinning services, and a log without secrets. */
import { expect, it } from 'vitest';
import type { Health, NewApiKeyResponse, Problem, StoredFile } from '../../../shared/api.ts';
import { generateKeyPair, parseApiKey, signToken } from '../../../shared/crypto/index.ts';
import { client, jsonOf, problemOf, pathOf } from '../../../testkit/api-client.ts';
import { startPeer, type Peer } from '../peer.ts';
import { adminToken, rpcToken, sharedService, startService, withSettings } from '../../../testkit/service.ts';
import { itemOf, present } from '../../../testkit/present.ts';

const canary = 'canary-5up3r';

it('S61: a line for each request and each fault, with its id and without what nobody may read', async () => {
  let cut: (() => void) | undefined;
  const service = await startService({
    async through(node) {
      const peer = await startPeer(node);
      cut = () => {
        peer.onCommand = (turn) =>
          turn.answer(500, JSON.stringify({ Message: 'no such thing', Code: 0, Type: 'error' }));
      };
      return peer.url;
    },
  });
  try {
    const { apiKey, account } = await service.account();
    const pair = await generateKeyPair();
    const call = client(service.url, apiKey);
    const ids: string[] = [];
    const ask = async (path: string, init: Parameters<typeof call>[1] = {}, by = call): Promise<Response> => {
      const response = await by(path, init);
      ids.push(present(response.headers.get('X-Request-Id')));
      return response;
    };
    const named = { 'Content-Disposition': `attachment; filename="${canary}.txt"`, 'Idempotency-Key': canary };
    const json = { 'Content-Type': 'application/json' };
    const file = await jsonOf<StoredFile>(
      ask('/v1/storage/encrypted', { method: 'POST', headers: named, body: canary }),
      201,
    );
    await ask('/v1/storage/encrypted', {
      method: 'POST',
      headers: json,
      body: `{"filename":"${canary}","data":"${canary}`,
    });
    await ask('/v1/storage/encrypted', {
      method: 'POST',
      headers: json,
      body: `{"filename":"${canary}/","data":"AAAA"}`,
    });
    await ask('/v1/storage/encrypted', {
      method: 'POST',
      headers: { 'Content-Disposition': `attachment; filename="${canary}` },
      body: 'x',
    });
    await ask('/v1/keys', { method: 'POST', body: `{"label":"${canary}",${canary}` });
    await ask('/v1/keys', { method: 'POST', body: `{"label":"${canary}","scopes":["${canary}"]}` });
    await ask(pathOf('recoverAccount', { id: account.id }), {
      method: 'POST',
      body: JSON.stringify({ privateKey: pair.privatePem }),
    });
    await ask(`/v1/storage?key=${apiKey}&password=${canary}`);
    await ask(`/v1/${canary}/${apiKey}`);
    await ask(`/v1/storage/${file.fileId}?password=${canary}`);
    await ask('/v1/storage', { headers: { Authorization: `Bearer ${apiKey}${canary}` } });
    await ask(pathOf('createAccount'), { method: 'POST', body: '{}' }, client(service.url, `${adminToken}${canary}`));
    const share = await jsonOf<{ id: string }>(
      ask('/v1/shares', {
        method: 'POST',
        body: JSON.stringify({ record: 'AAAA', files: [file.fileId], password: false, label: canary }),
      }),
      201,
    );
    await ask(`/v1/shares/${share.id}/open`, { method: 'POST' });
    await ask(`/v1/shares/${share.id}`, { method: 'DELETE' });
    await ask('/v1/shares', { method: 'POST', body: `{"record":"${canary}"}` });
    const key = present(await parseApiKey(apiKey));
    const exp = Math.floor(Date.now() / 1000) + 60;
    const tokens = [
      signToken(key, { method: 'GET', file: file.fileId, exp }),
      signToken(key, { method: 'POST', mode: 'plain', exp, jti: canary }),
      signToken(key, { method: 'POST', mode: canary, exp, jti: canary }),
    ];
    const url = pathOf('getSigned', { id: account.id, token: '' });
    expect((await ask(`${url}${tokens[0]}`)).status).toBe(200);
    for (const token of tokens) await ask(`${url}${token}`, { method: 'POST', body: canary });
    await ask(`${url}${tokens[0]}${canary}`);
    await ask(`${url}${tokens[0]}`, { method: 'PUT' });
    const { apiKey: second } = await jsonOf<NewApiKeyResponse>(
      ask('/v1/keys', { method: 'POST', body: '{"label":"x","scopes":["read"]}' }),
      201,
    );
    present(cut)();
    expect((await ask(`${url}${tokens[0]}`)).status).toBe(502);
    const failing = signToken(key, { method: 'POST', mode: 'plain', exp, jti: 'other' });
    expect((await ask(`${url}${failing}`, { method: 'POST', body: 'x' })).status).toBe(502);
    tokens.push(failing);
    expect(await problemOf(ask(`/v1/storage/${file.fileId}`))).toBe('502 pinning_failed');
    expect(
      (
        await ask('/v1/storage/encrypted', {
          method: 'POST',
          headers: { ...named, 'Idempotency-Key': 'other' },
          body: canary,
        })
      ).status,
    ).toBe(502);
    expect((await ask(`/v1/storage/${file.fileId}`, { method: 'DELETE' })).status).toBe(200);

    const lines = service.log.map(
      (line) => JSON.parse(line) as { event: string; requestId?: string; status?: number; route?: string },
    );
    const requests = lines.filter((line) => line.event === 'request');
    for (const id of ids) expect(requests.some((line) => line.requestId === id)).toBe(true);
    expect(requests.some((line) => line.route === '/v1/storage/:fileId' && line.status === 502)).toBe(true);
    expect(lines.some((line) => line.event === 'error' && ids.includes(present(line.requestId)))).toBe(true);
    const log = service.log.join('\n');
    const secrets = [
      canary,
      share.id,
      ...tokens.flatMap((token) => token.split('.').slice(1)),
      key.hash,
      apiKey,
      second,
      apiKey.slice(25, 68),
      adminToken,
      rpcToken,
      itemOf(pair.privatePem.split('\n'), 2),
      'PRIVATE KEY',
    ];
    for (const secret of secrets) expect(log.includes(secret), secret).toBe(false);
  } finally {
    await service.close();
  }
});

it('the lines that objects write for a request have its ID', async () => {
  let peer: Peer | undefined;
  const service = await startService({ through: async (node) => (peer = await startPeer(node)).url });
  try {
    const { apiKey } = await service.account();
    const call = client(service.url, apiKey);
    const { fileId } = await call.store('plain', 'stored before the pinning service fails');
    const ask = async (path: string, init: Parameters<typeof call>[1]): Promise<string> =>
      (await call(path, init)).headers.get('X-Request-Id') ?? '';
    const tus = {
      'Tus-Resumable': '1.0.0',
      'Upload-Length': '3000000',
      'Content-Type': 'application/offset+octet-stream',
    };
    present(peer).onCommand = async (turn) => {
      const isAsked = turn.command === 'pin/ls' || turn.command === 'pin/rm';
      if (isAsked) return turn.answer(500, JSON.stringify({ Message: 'no', Code: 0, Type: 'error' }));
      (await turn.pass()).deliver();
    };
    const body = 'new';
    const sent = {
      stored: await ask('/v1/storage/plain', { method: 'POST', headers: { 'Content-Type': 'a/b' }, body }),
      continued: await ask('/v1/uploads/plain', { method: 'POST', headers: tus, body: 'x'.repeat(2_000_000) }),
      deleted: await ask(`/v1/storage/${fileId}`, { method: 'DELETE' }),
    };
    const lines = service.log.map((line) => JSON.parse(line) as { event: string; requestId?: string });
    const eventsOf = (id: string) => lines.filter(({ requestId }) => requestId === id).map(({ event }) => event);
    expect(eventsOf(sent.stored)).toEqual(['pin.stat', 'error', 'request']);
    expect(eventsOf(sent.continued)).toEqual(['pin.stat', 'error', 'request']);
    expect(eventsOf(sent.deleted)).toEqual(['pin.unpin', 'request']);
  } finally {
    await service.close();
    await peer?.close();
  }
});

it.each([
  [
    'a wrong token',
    { vars: { KUBO_TOKEN: 'not-the-token' } },
    /refused the credentials/,
    / it refused our credentials for dag\/import \(403\): Kubo RPC Access Denied/,
  ],
  [
    'a wrong address',
    { through: (url: string) => `${url}/api/v0` },
    /not the RPC API of Kubo/,
    / it answered 404 to dag\/import: 404 page not found$/,
  ],
])(
  'S68: %s of a pinning service is reported to the client in a hint, and to the operator with the address',
  async (_, o, hint, text) => {
    const service = await startService(o);
    try {
      const { apiKey } = await service.account();
      const response = await client(service.url, apiKey).ask('storePlain', {}, { body: 'x' });
      const problem = await response.json<Problem>();
      expect({ status: response.status, code: problem.code }).toEqual({ status: 500, code: 'misconfigured' });
      expect(problem.hint).toMatch(hint);
      expect(JSON.stringify(problem)).not.toContain('127.0.0.1');
      const line = present(
        service.log.map((each) => JSON.parse(each) as Record<string, string>).find((each) => each['event'] === 'error'),
      );
      expect(line['error']).toContain(`node at ${service.node}`);
      expect(line['error']).toMatch(text);
      expect(service.log.join('')).not.toContain('not-the-token');
      const health = client(service.url, adminToken).ask('getHealth');
      const { services } = await jsonOf<Health>(health, 503);
      expect(services).toMatchObject([{ id: 'node', status: 'failing', code: 'misconfigured' }]);
    } finally {
      await service.close();
    }
  },
);

it('without an operator’s token there is no operator', async () => {
  const { url } = await sharedService();
  for (const token of ['', 'x', adminToken]) {
    const asked = client(url, token, withSettings({ ADMIN_TOKEN: '' })).ask('createAccount', { label: 'x' });
    expect(await problemOf(asked)).toBe('404 not_found');
  }
});
