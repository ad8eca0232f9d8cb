/** `GET /v1/openapi.json`: the API's description. */
import type { Ctx } from '../http/app.ts';
import { respond } from '../http/representation.ts';
import { describeApi } from '../openapi/document.ts';
import type { Route } from '../openapi/route.ts';

type Description = { etag: string; bytes: Uint8Array };

/**
 * The handler that describes routes.
 * @param routes the table, which has the handler itself as a row
 */
export function openapi(routes: () => readonly Route[]): (c: Ctx) => Promise<Response> {
  let described: Promise<Description> | undefined;
  return async (c) => {
    described ??= write(routes());
    const { etag, bytes } = await described;
    const headers = new Headers({ 'Content-Type': 'application/json', 'Cache-Control': 'no-cache' });
    return await respond(c, {
      etag,
      headers,
      bytes: bytes.length,
      body: async () => bytes,
      ranges: false,
    });
  };
}

async function write(routes: readonly Route[]): Promise<Description> {
  const bytes = new TextEncoder().encode(`${JSON.stringify(describeApi(routes))}\n`);
  return { etag: `"${new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)).toHex()}"`, bytes };
}
