/** A route that will go says so in every response, and in the description. */
import { Hono } from 'hono';
import { expect, it } from 'vitest';
import type { App } from '../../http/app.ts';
import { onError } from '../../http/middleware.ts';
import { describeApi } from '../../openapi/document.ts';
import { handlerOf, middlewareOf, type Route } from '../../openapi/route.ts';

const route: Route = {
  method: 'get',
  path: '/v1/health',
  operationId: 'getHealth',
  summary: 'An old route',
  who: 'anybody',
  responses: { 200: null },
  codes: [],
  deprecated: { since: '2027-01-31', sunset: '2028-01-31', guide: 'https://example.com/v2' },
  handler: (c) => c.body(null, 200),
};

function serve(served: Route, path: string): Promise<Response> {
  const app = new Hono<App>();
  app.on('get', [served.path], ...middlewareOf(served), handlerOf(served));
  app.onError(onError);
  return Promise.resolve(app.request(path));
}

it.each([
  ['/v1/health', 200],
  ['/v1/health?unknown', 400],
])('%s is %d and marked', async (path, status) => {
  const response = await serve(route, path);
  expect(response.status).toBe(status);
  // 2027-01-31T00:00:00Z in seconds.
  expect(response.headers.get('Deprecation')).toBe('@1801353600');
  expect(response.headers.get('Sunset')).toBe('Mon, 31 Jan 2028 00:00:00 GMT');
  expect(response.headers.get('Link')).toBe('<https://example.com/v2>; rel="deprecation"; type="text/html"');
});

it('no other route is marked', async () => {
  const { deprecated: _, ...lasting } = route;
  const response = await serve(lasting, '/v1/health');
  expect([response.headers.get('Deprecation'), response.headers.get('Sunset'), response.headers.get('Link')]).toEqual([
    null,
    null,
    null,
  ]);
});

it('the description says so as well', () => {
  const { paths } = describeApi([route]) as unknown as {
    paths: Record<string, { get: { deprecated?: boolean; responses: Record<string, { headers: object }> } }>;
  };
  const { deprecated, responses } = paths['/v1/health']!.get;
  expect(deprecated).toBe(true);
  for (const { headers } of Object.values(responses))
    expect(Object.keys(headers)).toEqual(expect.arrayContaining(['Deprecation', 'Sunset', 'Link']));
});
