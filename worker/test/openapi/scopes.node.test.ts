/**
 * The scopes of API keys in the description: each route is tried with a key that has all others,
 * and with one that has no others.
 */
import { expect, it } from 'vitest';
import { fullScopes, type Problem, type Scope } from '../../../shared/api.ts';
import { scopesOf } from '../../openapi/route.ts';
import { routes } from '../../routes/table.ts';
import { client, jsonOf } from '../../../testkit/api-client.ts';
import type { ApiRow } from '../../../testkit/api-rows.js';
import { sharedService } from '../../../testkit/service.ts';

// What clients of tests believe of the rows, compiled without the types of Workers, is so.
routes satisfies readonly ApiRow[];

type Document = { paths: Record<string, Record<string, { security: Record<string, string[]>[] }>> };

it('are named by the description of each route, and are what it asks for', async () => {
  const service = await sharedService();
  const { paths } = await jsonOf<Document>(fetch(`${service.url}/v1/openapi.json`));
  const { account, apiKey: owner } = await service.account();
  const withScopes = async (scopes: readonly Scope[]): Promise<string> =>
    (await client(service.url, owner).createKey({ label: 'x', scopes })).apiKey;
  const ids: Record<string, string> = {
    id: account.id,
    fileId: crypto.randomUUID(),
    uploadId: crypto.randomUUID(),
    shareId: '0'.repeat(22),
    cid: 'bafkqaaa',
  };
  // As much of a request as it takes to ask the account.
  const storing = { 'Content-Disposition': 'attachment; filename="x"' };
  const uploading = {
    'Tus-Resumable': '1.0.0',
    'Upload-Length': '1',
    'Upload-Offset': '0',
    'Upload-Metadata': 'filename eA==',
    'Content-Type': 'application/offset+octet-stream',
  };
  let checked = 0;
  for (const route of routes) {
    const [needed, ...instead] = scopesOf(route) ?? [];
    if (needed === undefined) continue;
    const path = route.path.replaceAll(/:(\w+)/g, (_, name: string) => ids[name] ?? name);
    const headers = route.path.startsWith('/v1/uploads') ? uploading : storing;
    const codeFor = async (scopes: readonly Scope[]): Promise<unknown> => {
      const response = await client(service.url, await withScopes(scopes))(path, {
        method: route.method.toUpperCase(),
        headers,
      });
      if (route.method === 'head') return response.status === 403 ? 'insufficient_scope' : undefined;
      const text = await response.text();
      return response.ok ? undefined : (JSON.parse(text) as Problem).code;
    };
    const context = `${route.method} ${route.path}`;
    for (const each of needed)
      expect(
        await codeFor(fullScopes.filter((other) => ![each, ...instead.flat()].includes(other))),
        `${context} without ${each}`,
      ).toBe('insufficient_scope');
    for (const enough of [...(needed.length > 0 ? [needed] : fullScopes.map((each) => [each])), ...instead])
      expect(await codeFor(enough), context).not.toBe('insufficient_scope');
    const described = paths[route.path.replaceAll(/:(\w+)/g, '{$1}')]?.[route.method];
    expect(described?.security, context).toEqual([needed, ...instead].map((key) => ({ key })));
    checked += needed.length;
  }
  expect(checked).toBeGreaterThan(7);
});
