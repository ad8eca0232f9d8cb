/**
 * The routes of the service, one row each. The Worker registers them, `/v1/openapi.json` describes them, and a test compares every
 * response with its row. The first path that matches wins, so `/v1/storage/plain` precedes `/v1/storage/:fileId`.
 */
import {
  AccountDetails,
  AccountId,
  ApiKeyList,
  CidParameter,
  EncryptedJsonUpload,
  FileChange,
  FileId,
  FileList,
  FileWithData,
  GatewayQuery,
  Health,
  HealthQuery,
  JsonUpload,
  KeyId,
  ListQuery,
  NewAccount,
  NewAccountResponse,
  NewApiKey,
  NewApiKeyResponse,
  NewlyStoredFile,
  ReadQuery,
  Receipt,
  Recover,
  RevokeQuery,
  Revoked,
  SealedUploadQuery,
  StoredFile,
  UploadQuery,
} from '../../shared/api.ts';
import type { Code } from '../../shared/errors.ts';
import { carType } from '../../shared/ipfs/index.ts';
import { createAccount, readAccount, readRecovery, recoverAccount } from './accounts.ts';
import { changeFile } from './change-file.ts';
import { eventRoutes } from './events-table.ts';
import { deletionRoutes } from './deletion-table.ts';
import { deleteFile, listFiles } from './files.ts';
import { readHealth } from './health.ts';
import { readGateway } from './ipfs.ts';
import { createKey, listKeys, revokeKey } from './keys.ts';
import { openapi } from './openapi.ts';
import { pinRoutes } from './pins-table.ts';
import { operatorRoutes } from './operator-table.ts';
import { readContent, readFile } from './read.ts';
import type { Route } from './route.ts';
import { shareRoutes } from './shares-table.ts';
import { signedRoutes } from './signed-table.ts';
import { upload } from './upload.ts';
import { uploadRoutes } from './uploads-table.ts';
import { usageRoutes } from './usage-table.ts';

const json = 'application/json';
const bytes = 'application/octet-stream';
const badJson: readonly Code[] = ['invalid_json', 'invalid_request', 'too_large', 'unsupported_media_type'];
const pinning: readonly Code[] = ['pinning_failed', 'pinning_unavailable', 'pinning_timeout', 'disk_full'];
const reading: readonly Code[] = [...pinning, 'pinning_lost', 'content_mismatch'];
const conditions = { 'If-Match': 'ETags', 'If-None-Match': 'ETags' };
const dates = { 'If-Modified-Since': 'an HTTP-date', 'If-Unmodified-Since': 'an HTTP-date' };
const range = { Range: 'one range of bytes', 'If-Range': 'an ETag' };
/** The headers of a representation, and of stored bytes, by status. */
const representation = ['ETag', 'Content-Length', 'Accept-Ranges'] as const;
const entity = [...representation, 'Content-Disposition', 'Repr-Digest'] as const;
const dated = [...entity, 'Last-Modified'] as const;
const whole = { 200: dated, 206: [...dated, 'Content-Range'], 304: ['ETag', 'Last-Modified'] } as const;
const readCodes: readonly Code[] = [
  'invalid_request',
  'not_found',
  'finishing',
  'content_denied',
  'not_acceptable',
  'precondition_failed',
  'range_not_satisfiable',
  'decrypt_failed',
  ...reading,
];

function uploadRoute(mode: 'encrypted' | 'plain'): Route {
  return {
    method: 'post',
    path: `/v1/storage/${mode}`,
    operationId: mode === 'encrypted' ? 'storeEncrypted' : 'storePlain',
    summary: mode === 'encrypted' ? 'Stores a file, encrypted to the account’s public key' : 'Stores a file unchanged',
    description:
      'A body of bytes may have any `Content-Type` but those of forms and of JSON; the file keeps it.' +
      (mode === 'plain'
        ? ' A CARv1 holds the blocks of one UnixFS file, its leaves first, under the CIDs they keep.'
        : ''),
    who: 'key',
    scope: 'write',
    query: mode === 'plain' ? UploadQuery : SealedUploadQuery,
    headers: {
      'Content-Disposition': 'the filename, for a body that is not JSON',
      'Content-Digest': 'SHA-256 or SHA-512 of the body; with another one nothing is stored',
      'Repr-Digest': 'the same: such a body is the whole of its representation',
      'Want-Repr-Digest': 'asks for the digest of the file as it arrived, in the body of the response',
      'Idempotency-Key': 'the same key: the same file',
      ...(mode === 'plain' ? { 'If-None-Match': '`*`: only if no file has this name' } : {}),
    },
    body: {
      [json]: mode === 'encrypted' ? EncryptedJsonUpload : JsonUpload,
      ...(mode === 'plain' ? { [carType]: null } : {}),
      [bytes]: null,
    },
    responses: { 201: { [json]: NewlyStoredFile } },
    responseHeaders: { 201: ['Location', 'Idempotency-Replayed'] },
    links: {
      getFile: { fileId: '/fileId' },
      getFileContent: { fileId: '/fileId' },
      deleteFile: { fileId: '/fileId' },
      getByCid: { cid: '/cid' },
    },
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
      'digest_mismatch',
      ...(mode === 'plain' ? (['cid_mismatch', 'precondition_failed'] as const) : []),
      ...pinning,
    ],
    handler: upload(mode),
  };
}

/** All routes, in the order in which they are matched. */
export const routes: readonly Route[] = [
  {
    method: 'get',
    path: '/v1/health',
    operationId: 'getHealth',
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
    operationId: 'getDescription',
    summary: 'This description',
    who: 'anybody',
    responses: { 200: { [json]: null }, 304: null },
    responseHeaders: { 200: representation, 304: ['ETag'] },
    headers: conditions,
    codes: ['precondition_failed'],
    handler: openapi(() => routes),
  },
  {
    method: 'post',
    path: '/v1/accounts',
    operationId: 'createAccount',
    summary: 'Creates an account and its first API key',
    who: 'operator',
    body: { [json]: NewAccount },
    responses: { 201: { [json]: NewAccountResponse } },
    links: {
      getRecoveryFile: { id: '/account/id' },
      recoverAccount: { id: '/account/id' },
      getAccountSummary: { id: '/account/id' },
      changeAccount: { id: '/account/id' },
      deleteAccount: { id: '/account/id' },
    },
    codes: [...badJson, 'key_invalid'],
    handler: createAccount,
  },
  ...operatorRoutes,
  {
    method: 'get',
    path: '/v1/accounts/:id/recovery',
    operationId: 'getRecoveryFile',
    summary: 'The recovery file: private key and recovery secret, encrypted to the account’s recovery key',
    params: { id: AccountId },
    who: 'address',
    responses: { 200: { [bytes]: null } },
    responseHeaders: { 200: ['Content-Disposition'] },
    codes: ['not_found'],
    handler: readRecovery,
  },
  {
    method: 'post',
    path: '/v1/accounts/:id/recover',
    operationId: 'recoverAccount',
    summary: 'Creates an API key for the text of the opened recovery file, revokes all others, and replaces the file',
    params: { id: AccountId },
    who: 'address',
    body: { [json]: Recover },
    responses: { 201: { [json]: NewAccountResponse } },
    codes: [...badJson, 'not_found', 'key_invalid', 'forbidden'],
    handler: recoverAccount,
  },
  {
    method: 'get',
    path: '/v1/account',
    operationId: 'getAccount',
    summary: 'The account, what it uses, and the caller’s key',
    who: 'key',
    responses: { 200: { [json]: AccountDetails } },
    codes: [],
    handler: readAccount,
  },
  {
    method: 'post',
    path: '/v1/keys',
    operationId: 'createKey',
    summary: 'Creates an API key within the scopes, the expiry and the limits of the caller’s',
    who: 'key',
    scope: 'keys',
    body: { [json]: NewApiKey },
    responses: { 201: { [json]: NewApiKeyResponse } },
    links: { revokeKey: { id: '/key/id' } },
    codes: [...badJson, 'forbidden'],
    handler: createKey,
  },
  {
    method: 'get',
    path: '/v1/keys',
    operationId: 'listKeys',
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
    operationId: 'revokeKey',
    summary: 'Revokes a key; the caller’s own only with self=true, the last with read or keys only with destroy=true',
    params: { id: KeyId },
    who: 'key',
    scope: 'keys',
    query: RevokeQuery,
    responses: { 200: { [json]: Revoked } },
    codes: ['invalid_request', 'not_found', 'conflict'],
    handler: revokeKey,
  },
  ...eventRoutes,
  ...usageRoutes,
  uploadRoute('encrypted'),
  uploadRoute('plain'),
  ...deletionRoutes,
  ...uploadRoutes,
  {
    method: 'get',
    path: '/v1/storage',
    operationId: 'listFiles',
    summary: 'A page of files, newest first unless it asks for another order',
    description: 'A page may have fewer files than `limit`, or none, and still a `cursor`, which goes on from there.',
    who: 'key',
    scope: 'read',
    query: ListQuery,
    responses: { 200: { [json]: FileList } },
    responseHeaders: { 200: ['Link'] },
    codes: ['invalid_request', 'invalid_cid', 'decrypt_failed'],
    handler: listFiles,
  },
  {
    method: 'get',
    path: '/v1/storage/:fileId',
    operationId: 'getFile',
    summary: 'A file: with its data, its bytes alone, or its container',
    params: { fileId: FileId },
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
      200: { [json]: FileWithData, [bytes]: null, 'application/vnd.sealpin': null, '*/*': null },
      206: { [bytes]: null, '*/*': null },
      304: null,
    },
    responseHeaders: whole,
    codes: readCodes,
    handler: readFile,
  },
  {
    method: 'delete',
    path: '/v1/storage/:fileId',
    operationId: 'deleteFile',
    summary: 'Deletes a file, and ends its shares',
    params: { fileId: FileId },
    who: 'key',
    scope: 'delete',
    headers: { ...conditions, 'If-Unmodified-Since': dates['If-Unmodified-Since'] },
    responses: { 200: { [json]: Receipt } },
    codes: ['not_found', 'finishing', 'precondition_failed', 'conflict'],
    handler: deleteFile,
  },
  {
    method: 'patch',
    path: '/v1/storage/:fileId',
    operationId: 'changeFile',
    summary: 'Changes the name, the type, the metadata, the tags or the expiry of a file',
    description: 'The key also needs the scope `read`, and `delete` to change `expiresAt`.',
    params: { fileId: FileId },
    who: 'key',
    scope: 'write',
    headers: {
      'If-Match': 'ETags of the file in any form: it is changed only if it was not changed since',
      'If-None-Match': conditions['If-None-Match'],
      'If-Unmodified-Since': dates['If-Unmodified-Since'],
    },
    body: { [json]: FileChange },
    responses: { 200: { [json]: StoredFile } },
    responseHeaders: { 200: ['ETag'] },
    codes: [
      ...badJson,
      'invalid_filename',
      'not_found',
      'finishing',
      'precondition_failed',
      'conflict',
      'decrypt_failed',
    ],
    handler: changeFile,
  },
  ...pinRoutes,
  ...shareRoutes,
  ...signedRoutes({
    store: uploadRoute('encrypted'),
    read: { headers: { ...conditions, ...dates, ...range }, responseHeaders: whole, codes: readCodes },
  }),
  {
    method: 'get',
    path: '/v1/storage/:fileId/content',
    operationId: 'getFileContent',
    summary: 'The bytes of a file, with its type and name',
    params: { fileId: FileId },
    who: 'key',
    scope: 'read',
    headers: { ...conditions, ...dates, ...range },
    responses: { 200: { [bytes]: null, '*/*': null }, 206: { [bytes]: null, '*/*': null }, 304: null },
    responseHeaders: whole,
    codes: readCodes.filter((code) => code !== 'not_acceptable'),
    handler: readContent,
  },
  {
    method: 'get',
    path: '/ipfs/:cid',
    operationId: 'getByCid',
    summary: 'The content of a CID, for anybody',
    params: { cid: CidParameter },
    query: GatewayQuery,
    who: 'address',
    ignoresUnknownQuery: true,
    headers: { Accept: 'the bytes, application/vnd.ipld.car or application/vnd.ipld.raw', ...conditions, ...range },
    responses: {
      200: { [bytes]: null, [carType]: null, 'application/vnd.ipld.raw': null },
      206: { [bytes]: null },
      304: null,
    },
    responseHeaders: { 200: entity, 206: [...entity, 'Content-Range'], 304: ['ETag'] },
    codes: [
      'invalid_request',
      'invalid_cid',
      'invalid_filename',
      'not_found',
      'gone',
      'forbidden',
      'content_denied',
      'not_acceptable',
      'precondition_failed',
      'range_not_satisfiable',
      ...reading,
    ],
    handler: readGateway,
  },
];
