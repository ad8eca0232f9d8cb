/** The routes that describe the others. */
import type { Ctx } from '../http/app.ts';
import { respond } from '../http/representation.ts';
import { describeApi } from '../openapi/document.ts';
import { route, type Route } from '../openapi/route.ts';
import { conditions, json, representation } from './route-parts.ts';

/**
 * The row of a description, which anybody may read.
 * @param o.routes the rows that it describes, itself among them
 */
export function descriptionRoute(
  path: string,
  operationId: string,
  o: { title: string; routes: () => readonly Route[] },
): Route {
  let described: ReturnType<typeof writeDescription> | undefined;
  const handler = async (c: Ctx): Promise<Response> => {
    described ??= writeDescription(o.title, o.routes());
    const { etag, bytes } = await described;
    const headers = new Headers({ 'Content-Type': json, 'Cache-Control': 'no-cache' });
    return await respond(c, { etag, headers, bytes: bytes.length, body: async () => bytes, ranges: false });
  };
  return route('get', path, operationId, handler, {
    summary: 'This description',
    who: 'anybody',
    responses: { 200: { [json]: null }, 304: null },
    responseHeaders: { 200: representation, 304: ['ETag'] },
    headers: conditions,
    codes: ['precondition_failed'],
  });
}

async function writeDescription(title: string, routes: readonly Route[]) {
  const bytes = new TextEncoder().encode(`${JSON.stringify(describeApi(title, routes))}\n`);
  return { etag: `"${new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)).toHex()}"`, bytes };
}
