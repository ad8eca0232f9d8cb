/** The rows of `/v1/shares`. */
import {
  OpenedShare,
  PageQuery,
  Share,
  ShareId,
  ShareList,
  ShareReceipt,
  ShareRequest,
  ShareStatus,
} from '../../../shared/api.ts';
import type { Route } from '../../openapi/route.ts';
import { createShare, deleteShare, listShares, openShare, readShare } from './shares.ts';

const json = 'application/json';
const path = '/v1/shares/:shareId';
const params = { shareId: ShareId };

export const shareRoutes: readonly Route[] = [
  {
    method: 'post',
    path: '/v1/shares',
    operationId: 'createShare',
    summary: 'Shares files: keeps a sealed record, which anybody with its ID can open until it expires or is used up',
    who: 'key',
    scope: 'share',
    body: { [json]: ShareRequest },
    responses: { 201: { [json]: Share } },
    responseHeaders: { 201: ['Location'] },
    links: { getShare: { shareId: '/id' }, deleteShare: { shareId: '/id' } },
    codes: [
      'invalid_json',
      'too_large',
      'unsupported_media_type',
      'not_found',
      'finishing',
      'forbidden',
      'conflict',
      'quota_exceeded',
    ],
    handler: createShare,
  },
  {
    method: 'get',
    path: '/v1/shares',
    operationId: 'listShares',
    summary: 'A page of the account’s shares, newest first',
    who: 'key',
    scope: 'share',
    query: PageQuery,
    responses: { 200: { [json]: ShareList } },
    codes: [],
    handler: listShares,
  },
  {
    method: 'get',
    path,
    operationId: 'getShare',
    params,
    summary: 'Whether a share is there, needs a password, and until when; uses nothing up',
    who: 'address',
    responses: { 200: { [json]: ShareStatus } },
    codes: ['not_found'],
    handler: readShare,
  },
  {
    method: 'delete',
    path,
    operationId: 'deleteShare',
    params,
    summary: 'Revokes a share',
    who: 'key',
    scope: 'share',
    responses: { 200: { [json]: ShareReceipt } },
    codes: ['not_found'],
    handler: deleteShare,
  },
  {
    method: 'post',
    path: `${path}/open`,
    operationId: 'openShare',
    params,
    summary: 'The record of a share; counts as one of its opens',
    who: 'address',
    headers: {
      'Idempotency-Key':
        'random, of 22 characters or more; for 10 minutes the same one gets the record again, uncounted',
    },
    responses: { 200: { [json]: OpenedShare } },
    responseHeaders: { 200: ['Idempotency-Replayed'] },
    codes: ['not_found', 'gone'],
    handler: openShare,
  },
];
