/** Replacing the key pair of an account with the SDK, over lines that break. */
import { expect, test } from 'vitest';
import { faultyProxy, type ProxyFault } from '../../testkit/faulty-proxy.ts';
import { first } from '../../testkit/present.ts';
import { sharedService } from '../../testkit/service.ts';
import { connect } from '../index.ts';
import { thrownBy } from './bytes.ts';

const path = '/v1/account/rotation';
const answered = (body: object): ProxyFault => ({
  kind: 'answer',
  status: 200,
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify(body),
});

test('a rotation whose answers get lost is begun once, and completed', async () => {
  const service = await sharedService();
  const { apiKey } = await service.account();
  const busy: ProxyFault = {
    kind: 'answer',
    status: 503,
    headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '1' },
    body: JSON.stringify({ type: 'x', title: 'x', status: 503, code: 'overloaded', requestId: 'x' }),
  };
  const faults: ProxyFault[] = [busy, { kind: 'swallow' }];
  const proxy = await faultyProxy(
    () => service.url,
    (request) => (request.path === path ? faults.shift() : undefined),
  );
  const connection = connect({ service: proxy.url, apiKey });
  const { fileId } = await connection.put('hello', { name: 'hello.txt' });
  const left: number[] = [];
  const rotated = await connection.rotateAccount({ onProgress: (remaining) => left.push(remaining) });
  expect(left).toEqual([0]);
  expect(rotated).toMatchObject({ revoked: [], shares: [], unreadable: [] });
  expect(faults).toEqual([]);
  expect(await (await connection.get(fileId)).text()).toBe('hello');
  const actions: string[] = [];
  for await (const { action } of connection.events()) actions.push(action);
  expect(actions.filter((action) => action === 'account.rotated')).toHaveLength(1);
  const { link } = await connection.share({ fileId });
  expect(link).toContain('#');
});

test('a service that is never done, and one that stops, end it with an error', async () => {
  const service = await sharedService();
  const { account, apiKey } = await service.account();
  const endless = answered({ publicKey: account.publicKey, done: false, remaining: 7 });
  const proxy = await faultyProxy(
    () => service.url,
    (request) => (request.path === path ? endless : undefined),
  );
  const connection = connect({ service: proxy.url, apiKey });
  expect(await thrownBy(() => connection.rotateAccount())).toMatchObject({ code: 'service_answer' });
  const stop = new AbortController();
  const rotating = connection.rotateAccount({ signal: stop.signal, onProgress: () => stop.abort(new Error('enough')) });
  expect(await thrownBy(() => rotating)).toMatchObject({ message: 'enough' });
  expect(first(proxy.passed.map(({ path: asked }) => asked))).toBe('/v1/account');
});
