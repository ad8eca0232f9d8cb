/** The rows of `/v1/shares`, and of signed URLs, which give what rows with an API key do. */
import * as shapes from '../../../shared/api.ts';
import type { Code } from '../../../shared/errors.ts';
import { keyWith, route, type Route } from '../../openapi/route.ts';
import { bytesType, conditions, json } from '../route-parts.ts';
import { changeShare, createShare, deleteShare, listShares, openShare, readShare } from './shares.ts';
import { readSigned, storeSigned } from './signed.ts';

const sharePath = '/v1/shares/:shareId';
const params = { shareId: shapes.ShareId };
const bySharer = { ...keyWith('share'), instead: ['send'] } as const;

export const shareRoutes: readonly Route[] = [
  route('post', '/v1/shares', 'createShare', createShare, {
    summary: 'Shares files: keeps a sealed record, which anybody with its ID can open until it expires or is used up',
    ...bySharer,
    body: { [json]: shapes.ShareRequest },
    responses: { 201: { [json]: shapes.Share } },
    responseHeaders: { 201: ['Location', 'ETag'] },
    links: { getShare: { shareId: '/id' }, changeShare: { shareId: '/id' }, deleteShare: { shareId: '/id' } },
    codes: ['not_found', 'finishing', 'forbidden', 'conflict', 'quota_exceeded'],
  }),
  route('get', '/v1/shares', 'listShares', listShares, {
    summary: 'A page of the account’s shares, newest first; with `send`, of those that the key made',
    ...bySharer,
    query: shapes.PageQuery,
    responses: { 200: { [json]: shapes.ShareList } },
  }),
  route('get', sharePath, 'getShare', readShare, {
    params,
    summary: 'Whether a share is there, needs a password, and until when; uses nothing up',
    who: 'address',
    headers: conditions,
    responses: { 200: { [json]: shapes.ShareStatus }, 304: null },
    responseHeaders: { 200: ['ETag'], 304: ['ETag'] },
    codes: ['not_found', 'precondition_failed'],
  }),
  route('patch', sharePath, 'changeShare', changeShare, {
    params,
    summary: 'Changes how often and how long an active share opens; with `send`, of those that the key made',
    description:
      'The times of the service count from when the share was made. What an invitation stored for it expires with it.',
    ...bySharer,
    headers: conditions,
    body: { [json]: shapes.ShareChange },
    responses: { 200: { [json]: shapes.Share } },
    responseHeaders: { 200: ['ETag'] },
    codes: ['not_found', 'gone', 'conflict', 'precondition_failed'],
  }),
  route('delete', sharePath, 'deleteShare', deleteShare, {
    params,
    summary: 'Revokes a share; what an invitation stored for it alone is deleted',
    ...bySharer,
    responses: { 200: { [json]: shapes.ShareReceipt } },
    codes: ['not_found'],
  }),
  route('post', `${sharePath}/open`, 'openShare', openShare, {
    params,
    summary: 'The record of a share; counts as one of its opens',
    who: 'address',
    headers: {
      'Idempotency-Key':
        'random, of 22 characters or more; for 10 minutes the same one gets the record again, uncounted',
    },
    responses: { 200: { [json]: shapes.OpenedShare } },
    responseHeaders: { 200: ['Idempotency-Replayed'] },
    codes: ['not_found', 'gone', 'forbidden'],
  }),
];

export const signedUrlPath = '/v1/accounts/:id/signed/:token';
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
      params: { id: shapes.AccountId },
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
      params: { id: shapes.AccountId },
      who: 'address',
      headers: Object.fromEntries(sent),
      body: { [json]: shapes.JsonUpload, [bytesType]: null },
      responses: store.responses,
      responseHeaders: store.responseHeaders ?? {},
      codes: [...codes, ...(store.codes ?? [])],
    }),
  ];
}
