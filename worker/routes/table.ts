/**
 * The routes of the service, one row each. The Worker registers them, `/v1/openapi.json` describes them, and a test compares every
 * response with its row. The first path that matches wins, so `/v1/storage/plain` precedes `/v1/storage/:fileId`.
 */
import {
  AccountResponse,
  AccountReceipt,
  ApiKeyList,
  FileList,
  FileWithData,
  Health,
  HealthQuery,
  JsonUpload,
  ListQuery,
  NewAccount,
  NewAccountResponse,
  NewApiKey,
  NewApiKeyResponse,
  ReadQuery,
  Receipt,
  Recover,
  Revoked,
  RevokeQuery,
  StoredFile,
  UploadQuery,
} from '../../shared/api.ts';
import type { Code } from '../../shared/errors.ts';
import { createAccount, deleteAccount, readAccount, readRecovery, recoverAccount } from './accounts.ts';
import { deleteFile, listFiles } from './files.ts';
import { readHealth } from './health.ts';
import { readGateway } from './ipfs.ts';
import { createKey, listKeys, revokeKey } from './keys.ts';
import { openapi } from './openapi.ts';
import { readFile } from './read.ts';
import type { Route } from './route.ts';
import { shareRoutes } from './shares-table.ts';
import { upload } from './upload.ts';
import { uploadRoutes } from './uploads-table.ts';

const json = 'application/json';
const bytes = 'application/octet-stream';
const badJson: readonly Code[] = ['invalid_json', 'invalid_request', 'too_large'];
const pinning: readonly Code[] = ['pinning_failed', 'pinning_unavailable', 'pinning_timeout', 'disk_full'];
const reading: readonly Code[] = [...pinning, 'pinning_lost', 'content_mismatch'];
const conditions = { 'If-Match': 'ETags', 'If-None-Match': 'ETags' };
const dates = { 'If-Modified-Since': 'an HTTP-date', 'If-Unmodified-Since': 'an HTTP-date' };
const range = { Range: 'one range of bytes', 'If-Range': 'an ETag' };

function uploadRoute(mode: 'encrypted' | 'plain'): Route {
  return {
    method: 'post',
    path: `/v1/storage/${mode}`,
    summary: mode === 'encrypted' ? 'Stores a file, encrypted to the account’s public key' : 'Stores a file unchanged',
    who: 'key',
    scope: 'write',
    ...(mode === 'plain' ? { query: UploadQuery } : {}),
    headers: {
      'Content-Disposition': 'the filename, for a body that is not JSON',
      'Content-Digest': 'part of what makes a second request with an Idempotency-Key the same',
      'Idempotency-Key': 'the same key: the same file',
    },
    body: { [json]: JsonUpload, '*/*': null },
    responses: { 201: { [json]: StoredFile } },
    codes: [
      'invalid_request',
      'invalid_json',
      'invalid_base64',
      'invalid_filename',
      'invalid_cid',
      'body_incomplete',
      'body_timeout',
      'too_large',
      'quota_exceeded',
      'unsupported_media_type',
      'idempotency_running',
      'idempotency_mismatch',
      ...(mode === 'plain' ? (['cid_mismatch'] as const) : []),
      ...pinning,
    ],
    handler: upload(mode),
  };
}

export const routes: readonly Route[] = [
  {
    method: 'get',
    path: '/v1/health',
    summary: 'Whether the service can store and read (503 if not), its version and limits',
    who: 'anybody',
    query: HealthQuery,
    responses: { 200: { [json]: Health }, 503: { [json]: Health } },
    codes: ['invalid_request'],
    handler: readHealth,
  },
  {
    method: 'get',
    path: '/v1/openapi.json',
    summary: 'This description',
    who: 'anybody',
    responses: { 200: { [json]: null } },
    codes: [],
    handler: openapi(() => routes),
  },
  {
    method: 'post',
    path: '/v1/accounts',
    summary: 'Creates an account and its first API key',
    who: 'operator',
    body: { [json]: NewAccount },
    responses: { 201: { [json]: NewAccountResponse } },
    codes: [...badJson, 'key_invalid'],
    handler: createAccount,
  },
  {
    method: 'delete',
    path: '/v1/accounts/:id',
    summary: 'Deletes an account with everything in it',
    who: 'operator',
    responses: { 200: { [json]: AccountReceipt } },
    codes: [],
    handler: deleteAccount,
  },
  {
    method: 'get',
    path: '/v1/accounts/:id/recovery',
    summary: 'The recovery file: private key and recovery secret, encrypted to the account’s recovery key',
    who: 'address',
    responses: { 200: { [bytes]: null } },
    codes: ['not_found'],
    handler: readRecovery,
  },
  {
    method: 'post',
    path: '/v1/accounts/:id/recover',
    summary: 'Creates an API key for the text of the opened recovery file, revokes all others, and replaces the file',
    who: 'address',
    body: { [json]: Recover },
    responses: { 201: { [json]: NewAccountResponse } },
    codes: [...badJson, 'not_found', 'key_invalid', 'forbidden'],
    handler: recoverAccount,
  },
  {
    method: 'get',
    path: '/v1/account',
    summary: 'The account, what it uses, and the caller’s key',
    who: 'key',
    responses: { 200: { [json]: AccountResponse } },
    codes: [],
    handler: readAccount,
  },
  {
    method: 'post',
    path: '/v1/keys',
    summary: 'Creates an API key within the scopes, the expiry and the limits of the caller’s',
    who: 'key',
    scope: 'keys',
    body: { [json]: NewApiKey },
    responses: { 201: { [json]: NewApiKeyResponse } },
    codes: [...badJson, 'forbidden'],
    handler: createKey,
  },
  {
    method: 'get',
    path: '/v1/keys',
    summary: 'The keys that are not revoked; the caller’s is marked',
    who: 'key',
    scope: 'keys',
    responses: { 200: { [json]: ApiKeyList } },
    codes: [],
    handler: listKeys,
  },
  {
    method: 'delete',
    path: '/v1/keys/:id',
    summary: 'Revokes a key; the caller’s own only with self=true, the last with read or keys only with destroy=true',
    who: 'key',
    scope: 'keys',
    query: RevokeQuery,
    responses: { 200: { [json]: Revoked } },
    codes: ['invalid_request', 'not_found', 'conflict'],
    handler: revokeKey,
  },
  uploadRoute('encrypted'),
  uploadRoute('plain'),
  ...uploadRoutes,
  {
    method: 'get',
    path: '/v1/storage',
    summary: 'A page of files, newest first',
    who: 'key',
    scope: 'read',
    query: ListQuery,
    responses: { 200: { [json]: FileList } },
    codes: ['invalid_request', 'invalid_cid', 'decrypt_failed'],
    handler: listFiles,
  },
  {
    method: 'get',
    path: '/v1/storage/:fileId',
    summary: 'A file: with its data, its bytes alone, or its container',
    who: 'key',
    scope: 'read',
    query: ReadQuery,
    headers: {
      Accept: 'application/json, application/octet-stream or the type of the file, application/vnd.sealpin',
      ...conditions,
      ...dates,
      ...range,
    },
    responses: {
      200: { [json]: FileWithData, '*/*': null, 'application/vnd.sealpin': null },
      206: { '*/*': null },
      304: null,
    },
    codes: [
      'invalid_request',
      'not_found',
      'not_acceptable',
      'precondition_failed',
      'range_not_satisfiable',
      'decrypt_failed',
      ...reading,
    ],
    handler: readFile,
  },
  {
    method: 'delete',
    path: '/v1/storage/:fileId',
    summary: 'Deletes a file, and ends its shares',
    who: 'key',
    scope: 'delete',
    responses: { 200: { [json]: Receipt } },
    codes: ['not_found'],
    handler: deleteFile,
  },
  ...shareRoutes,
  {
    method: 'get',
    path: '/ipfs/:cid',
    summary: 'The content of a CID, for anybody',
    who: 'address',
    ignoresUnknownQuery: true,
    queries: {
      format: 'car or raw; takes precedence over Accept',
      'dag-scope': 'of a CAR: block, entity or all',
      'entity-bytes': 'of a CAR: from:to, inclusive; to may be *',
      'car-version': '1',
      'car-order': 'dfs',
      'car-dups': 'y or n',
      filename: 'of the attachment',
    },
    headers: { Accept: 'the bytes, application/vnd.ipld.car or application/vnd.ipld.raw', ...conditions, ...range },
    responses: { 200: { '*/*': null }, 206: { '*/*': null }, 304: null },
    codes: [
      'invalid_request',
      'invalid_cid',
      'invalid_filename',
      'not_found',
      'gone',
      'not_acceptable',
      'precondition_failed',
      'range_not_satisfiable',
      ...reading,
    ],
    handler: readGateway,
  },
];
