/**
 * The routes of the service, one row each. The Worker registers them, two documents describe them,
 * and a test compares every response with its row. The first path that matches wins, so
 * `/v1/storage/plain` precedes `/v1/storage/:fileId`.
 */
import * as shapes from '../../shared/api.ts';
import { carType } from '../../shared/ipfs/index.ts';
import { accountRoutes } from './accounts/accounts-table.ts';
import { changeFile } from './files/change-file.ts';
import { deleteFile, deleteFiles, listFiles, readReceipt, verifyFile } from './files/files.ts';
import { readHealth } from './operator/health.ts';
import { readGateway } from './gateway/ipfs.ts';
import { descriptionRoute } from './openapi.ts';
import { operatorRoutes } from './operator/operator-table.ts';
import { readContent, readFile } from './files/read.ts';
import {
  bytesType,
  conditions,
  dates,
  entity,
  json,
  pinning,
  range,
  readCodes,
  reading,
  whole,
} from './route-parts.ts';
import { keyWith, route, type Route } from '../openapi/route.ts';
import { shareRoutes, signedRoutes } from './shares/shares-table.ts';
import { uploadHandler } from './files/upload.ts';
import { uploadRoutes } from './uploads/uploads-table.ts';

function uploadRoute(mode: 'encrypted' | 'plain'): Route {
  return route(
    'post',
    `/v1/storage/${mode}`,
    mode === 'encrypted' ? 'storeEncrypted' : 'storePlain',
    uploadHandler(mode),
    {
      summary:
        mode === 'encrypted' ? 'Stores a file, encrypted to the account’s public key' : 'Stores a file unchanged',
      description:
        'A body of bytes may have any `Content-Type` but those of forms and of JSON; the file keeps it.' +
        (mode === 'plain'
          ? ' A CARv1 holds the blocks of one UnixFS file, its leaves first, under the CIDs they keep.'
          : ''),
      ...keyWith('write'),
      ...(mode === 'plain' ? { instead: ['send'] } : {}),
      query: mode === 'plain' ? shapes.UploadQuery : shapes.UploadDetails,
      headers: {
        'Content-Disposition': 'the filename, for a body that is not JSON',
        'Content-Digest': 'SHA-256 or SHA-512 of the body; with another one nothing is stored',
        'Repr-Digest': 'the same: such a body is the whole of its representation',
        'Want-Repr-Digest': 'asks for the digest of the file as it arrived, in the body of the response',
        'Idempotency-Key': 'the same key: the same file',
        ...(mode === 'plain' ? { 'If-None-Match': '`*`: only if no file has this name; needs a key with `read`' } : {}),
      },
      body: {
        [json]: mode === 'encrypted' ? shapes.EncryptedJsonUpload : shapes.JsonUpload,
        ...(mode === 'plain' ? { [carType]: null } : {}),
        [bytesType]: null,
      },
      responses: { 201: { [json]: shapes.NewlyStoredFile } },
      responseHeaders: { 201: ['Location', 'Idempotency-Replayed'] },
      links: {
        getFile: { fileId: '/fileId' },
        getFileContent: { fileId: '/fileId' },
        deleteFile: { fileId: '/fileId' },
        getByCid: { cid: '/cid' },
      },
      codes: [
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
        ...(mode === 'plain' ? (['cid_mismatch', 'precondition_failed', 'not_found'] as const) : []),
        ...pinning,
      ],
    },
  );
}

const ofFile = { who: 'key', params: { fileId: shapes.FileId } } as const;

const userRoutes: readonly Route[] = [
  route('get', '/v1/health', 'getHealth', readHealth, {
    summary: 'Whether the service can store and read (503 if not), its version and limits',
    who: 'anybody',
    query: shapes.HealthQuery,
    responses: { 200: { [json]: shapes.Health }, 503: { [json]: shapes.Health } },
  }),
  descriptionRoute('/v1/openapi.json', 'getDescription', { title: 'Sealpin', routes: () => userRoutes }),
  ...accountRoutes,
  uploadRoute('encrypted'),
  uploadRoute('plain'),
  route('post', '/v1/storage/delete', 'deleteFiles', deleteFiles, {
    summary: 'Deletes up to 1,000 files at once, and ends their shares',
    ...keyWith('delete'),
    body: { [json]: shapes.FilesToDelete },
    responses: { 200: { [json]: shapes.DeletedFiles } },
    codes: ['finishing'],
  }),
  route('get', '/v1/storage/:fileId/receipt', 'getReceipt', readReceipt, {
    ...ofFile,
    summary: `What became of a file that was deleted or has expired, for ${shapes.receiptDays} days`,
    scopes: ['read'],
    responses: { 200: { [json]: shapes.Receipt } },
    codes: ['not_found'],
  }),
  ...uploadRoutes,
  route('get', '/v1/storage', 'listFiles', listFiles, {
    summary: 'A page of files, newest first unless it asks for another order',
    description: 'A page may have fewer files than `limit`, or none, and still a `cursor`, which continues from there.',
    ...keyWith('read'),
    query: shapes.ListQuery,
    responses: { 200: { [json]: shapes.FileList } },
    responseHeaders: { 200: ['Link'] },
    codes: ['invalid_cid', 'decrypt_failed'],
  }),
  route('get', '/v1/storage/:fileId', 'getFile', readFile, {
    ...ofFile,
    summary: 'A file: with its data, its bytes alone, or its container',
    scopes: ['read'],
    query: shapes.ReadQuery,
    headers: {
      Accept: 'application/json, application/octet-stream or the type of the file, application/vnd.sealpin',
      ...conditions,
      ...dates,
      ...range,
    },
    responses: {
      200: { [json]: shapes.FileWithData, [bytesType]: null, 'application/vnd.sealpin': null, '*/*': null },
      206: { [bytesType]: null, '*/*': null },
      304: null,
    },
    responseHeaders: whole,
    codes: readCodes,
  }),
  route('delete', '/v1/storage/:fileId', 'deleteFile', deleteFile, {
    ...ofFile,
    summary: 'Deletes a file, and ends its shares',
    scopes: ['delete'],
    headers: { ...conditions, 'If-Unmodified-Since': dates['If-Unmodified-Since'] },
    responses: { 200: { [json]: shapes.Receipt } },
    codes: ['not_found', 'finishing', 'precondition_failed', 'conflict'],
  }),
  route('patch', '/v1/storage/:fileId', 'changeFile', changeFile, {
    ...ofFile,
    summary: 'Changes the name, the type, the metadata, the tags, the sealed details or the expiry of a file',
    description:
      'To change `expiresAt` the key also needs the scope `delete`. The key that stored a file may set its `details`.',
    scopes: ['read', 'write'],
    headers: {
      'If-Match': 'ETags of the file in any form: it is changed only if it was not changed since',
      'If-None-Match': conditions['If-None-Match'],
      'If-Unmodified-Since': dates['If-Unmodified-Since'],
    },
    body: { [json]: shapes.FileChange },
    responses: { 200: { [json]: shapes.StoredFile } },
    responseHeaders: { 200: ['ETag'] },
    codes: ['invalid_filename', 'not_found', 'finishing', 'precondition_failed', 'conflict', 'decrypt_failed'],
  }),
  route('post', '/v1/storage/:fileId/verification', 'verifyFile', verifyFile, {
    ...ofFile,
    summary: 'Reads all bytes of a file from each service that holds it, and compares them with its CID',
    description: 'A file that takes longer than some seconds is 202: it is read on, and the file’s `pins` say when.',
    scopes: ['read'],
    responses: { 200: { [json]: shapes.Verification }, 202: { [json]: shapes.Verification } },
    codes: ['not_found', 'finishing', 'content_denied'],
  }),
  ...shareRoutes,
  ...signedRoutes({
    store: uploadRoute('encrypted'),
    read: { headers: { ...conditions, ...dates, ...range }, responseHeaders: whole, codes: readCodes },
  }),
  route('get', '/v1/storage/:fileId/content', 'getFileContent', readContent, {
    ...ofFile,
    summary: 'The bytes of a file, with its type and name',
    scopes: ['read'],
    headers: { ...conditions, ...dates, ...range },
    responses: { 200: { [bytesType]: null, '*/*': null }, 206: { [bytesType]: null, '*/*': null }, 304: null },
    responseHeaders: whole,
    codes: readCodes.filter((code) => code !== 'not_acceptable'),
  }),
  route('get', '/ipfs/:cid', 'getByCid', readGateway, {
    summary: 'The content of a CID, for anybody',
    params: { cid: shapes.AnyCidParameter },
    query: shapes.GatewayQuery,
    who: 'address',
    ignoresUnknownQuery: true,
    headers: { Accept: 'the bytes, application/vnd.ipld.car or application/vnd.ipld.raw', ...conditions, ...range },
    responses: {
      200: { [bytesType]: null, [carType]: null, 'application/vnd.ipld.raw': null },
      206: { [bytesType]: null, 'application/vnd.ipld.raw': null },
      304: null,
    },
    responseHeaders: { 200: entity, 206: [...entity, 'Content-Range'], 304: ['ETag'] },
    codes: [
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
  }),
];

/** All routes, in the order in which they are matched. */
export const routes: readonly Route[] = [...userRoutes, ...operatorRoutes];
