/**
 * Every route of the operator, from its row: whom it asks for, and what stands where it was before.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Problem } from '../../../shared/api.ts';
import { adminToken, metricsToken, restoreToken, sharedService, type Service } from '../../../testkit/service.ts';
import { operatorRoutes } from '../../routes/operator/operator-table.ts';
import { routes } from '../../routes/table.ts';
import { problemOf, tokenOf } from '../../../testkit/api-client.ts';

let service: Service;
let apiKey: string;
beforeAll(async () => {
  service = await sharedService();
  ({ apiKey } = await service.account());
});

const guarded = operatorRoutes.filter(({ who }) => who !== 'anybody').map((route) => ({ route, path: route.path }));
const ask = (method: string, path: string, token?: string, more: Record<string, string> = {}): Promise<Response> =>
  fetch(`${service.url}${path.replaceAll(/:\w+/g, 'x')}`, {
    method: method.toUpperCase(),
    headers: { ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }), ...more },
  });

it('is below one path, which nobody else’s is', () => {
  const isOperators = (who: string): boolean => who === 'operator' || who === 'monitor';
  expect(routes.filter(({ path, who }) => isOperators(who) && !path.startsWith('/v1/operator/'))).toEqual([]);
  expect(guarded.filter(({ route }) => !isOperators(route.who))).toEqual([]);
  expect(guarded.length).toBeGreaterThan(15);
});

describe.each(guarded)('$route.method $path', ({ route: { method, path, who } }) => {
  it('asks for its token before it looks at anything else', async () => {
    const token = tokenOf({ who }, apiKey);
    const others = [adminToken, metricsToken, restoreToken, apiKey, 'x', undefined].filter((each) => each !== token);
    for (const other of others) {
      for (const query of ['', '?unknown=1', '?limit=0&limit=0'])
        expect(await problemOf(ask(method, path + query, other))).toBe('401 unauthorized');
      expect(await problemOf(ask(method, path, other, { 'If-Match': '"x"', Digest: 'x' }))).toBe('401 unauthorized');
    }
    expect(await problemOf(ask(method, `${path}?unknown=1`, token))).toBe('400 invalid_request');
  });

  it('is named where it was before', async () => {
    const before = path.replace('/v1/operator/', '/v1/');
    for (const token of [adminToken, undefined]) {
      const response = await ask(method, before, token);
      const { hint } = await response.clone().json<Problem>();
      expect(await problemOf(response)).toBe('404 not_found');
      expect(hint).toBe(`the operator’s routes have moved: this one is ${path}`);
    }
  });
});

it('says nothing of other paths', async () => {
  for (const path of ['/v1/operator', '/v1/operator/x', '/v1/x', '/v1/accounts/x/y']) {
    const response = await ask('get', path, adminToken);
    expect(await response.json<Problem>()).not.toHaveProperty('hint');
  }
});
