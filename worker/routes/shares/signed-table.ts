/** The rows of signed URLs, which take and give what the rows do that need an API key. */
import { AccountId, JsonUpload } from '../../../shared/api.ts';
import type { Code } from '../../../shared/errors.ts';
import { route, type Route } from '../../openapi/route.ts';
import { bytesType, json } from '../route-parts.ts';
import { readSigned, storeSigned } from './signed.ts';

export const signedUrlPath = '/v1/accounts/:id/signed/:token';
const accountParams = { id: AccountId };
const codes: readonly Code[] = ['unauthorized', 'account_disabled', 'insufficient_scope', 'forbidden', 'gone'];

/** Properties that a signed row shares with one that needs an API key. */
type Common = Pick<Route, 'headers' | 'responseHeaders' | 'codes'>;

/** @param store of an upload in encrypted mode, @param read of a download of bytes */
export function signedRoutes({ store, read }: { store: Common & Pick<Route, 'responses'>; read: Common }): Route[] {
  const sent = Object.entries(store.headers ?? {}).filter(
    ([name]) => !['Idempotency-Key', 'If-None-Match'].includes(name),
  );
  const unread: readonly Code[] = ['not_acceptable', 'decrypt_failed'];
  return [
    route('get', signedUrlPath, 'getSigned', readSigned, {
      summary: 'The file of a signed URL: its bytes in plain mode, its container in encrypted mode',
      params: accountParams,
      who: 'address',
      ...read,
      responses: {
        200: { [bytesType]: null, 'application/vnd.sealpin': null, '*/*': null },
        206: { [bytesType]: null, '*/*': null },
        304: null,
      },
      codes: [...codes, ...(read.codes ?? []).filter((code) => !unread.includes(code))],
    }),
    route('post', signedUrlPath, 'storeSigned', storeSigned, {
      summary: 'Stores a file by a signed URL; the same URL can be sent again until it succeeds',
      params: accountParams,
      who: 'address',
      headers: Object.fromEntries(sent),
      body: { [json]: JsonUpload, [bytesType]: null },
      responses: store.responses,
      responseHeaders: store.responseHeaders ?? {},
      codes: [...codes, ...(store.codes ?? [])],
    }),
  ];
}
