/** The rows of `/v1/uploads`. */
import { FileId, ResumableUpload, ResumableUploadList } from '../../../shared/api.ts';
import type { Code } from '../../../shared/errors.ts';
import { chunkType, tusVersion } from '../../../shared/tus-protocol.ts';
import { keyWith, route, type Route } from '../../openapi/route.ts';
import { json, pinning } from '../route-parts.ts';
import * as uploads from './uploads.ts';

const version = { 'Tus-Resumable': tusVersion };
const digestHeader = { 'Content-Digest': 'SHA-256 or SHA-512 of the body, which counts whole then or not at all' };
const params = { uploadId: FileId };
const byWriter = { ...keyWith('write'), instead: ['send'] } as const;
/** Headers of every response about an upload. */
const progress = ['Upload-Offset', 'Upload-Expires', 'Sealpin-File', 'Sealpin-Cid'] as const;
/** Headers of the response to another version of the protocol, or to none. */
const otherVersion = { 412: ['Tus-Version'] } as const;
const chunk: readonly Code[] = [
  'precondition_failed',
  'too_large',
  'quota_exceeded',
  'unsupported_media_type',
  'cid_mismatch',
  'digest_mismatch',
  'upload_changed',
  'upload_busy',
  ...pinning,
];

function options(path: string, operationId: string): Route {
  return route('options', path, operationId, uploads.describeUploads, {
    summary: 'The version, the extensions and the largest file of tus, by which files are uploaded here',
    who: 'anybody',
    ignoresUnknownQuery: true,
    responses: { 204: null },
    responseHeaders: { 204: ['Tus-Version', 'Tus-Extension', 'Tus-Max-Size'] },
  });
}

function creation(mode: 'encrypted' | 'plain'): Route[] {
  const path = `/v1/uploads/${mode}`;
  return [
    route('post', path, `createUpload${mode === 'plain' ? 'Plain' : 'Encrypted'}`, uploads.createUpload(mode), {
      summary:
        'Begins an upload that may be continued, ' +
        (mode === 'plain' ? 'of a file as it is' : 'encrypted to the account’s public key'),
      ...keyWith('write'),
      ...(mode === 'plain' ? { instead: ['send'] } : {}),
      requiredHeaders: version,
      headers: {
        'Upload-Length': 'bytes of the file',
        'Upload-Defer-Length': '1: the length is told later',
        'Upload-Metadata':
          `filename or name, filetype or type${mode === 'plain' ? ', cid, provisional' : ''}, ` +
          'expiresAt, each with its value in base64',
        'Idempotency-Key': 'the same key: the same upload',
        ...digestHeader,
      },
      optionalBody: { [chunkType]: null },
      responses: { 201: null },
      responseHeaders: { 201: ['Location', 'Idempotency-Replayed', ...progress], ...otherVersion },
      codes: [
        ...chunk,
        'body_incomplete',
        'body_timeout',
        'invalid_filename',
        'invalid_cid',
        'not_found',
        'gone',
        'offset_mismatch',
        'too_many_uploads',
        'idempotency_mismatch',
        'idempotency_running',
      ],
    }),
    options(path, `describeUploads${mode === 'plain' ? 'Plain' : 'Encrypted'}`),
  ];
}

const uploadPath = '/v1/uploads/:uploadId';

const rows: readonly Route[] = [
  ...creation('encrypted'),
  ...creation('plain'),
  route('get', '/v1/uploads', 'listUploads', uploads.listUploads, {
    summary: 'The uploads of the key; with the scope `keys`, those of the account',
    who: 'key',
    responses: { 200: { [json]: ResumableUploadList } },
  }),
  options('/v1/uploads', 'describeUploads'),
  route('head', uploadPath, 'headUpload', uploads.headUpload, {
    params,
    summary: 'Returns the offset of an upload; a request that continues it is ended',
    ...byWriter,
    ignoresUnknownQuery: true,
    requiredHeaders: version,
    responses: { 200: null },
    responseHeaders: { 200: ['Upload-Length', 'Upload-Defer-Length', 'Upload-Metadata', ...progress], ...otherVersion },
    codes: ['precondition_failed', 'not_found', 'gone', 'upload_busy'],
  }),
  route('patch', uploadPath, 'continueUpload', uploads.patchUpload, {
    params,
    summary: 'Continues an upload; 204 with the last bytes names the file',
    ...byWriter,
    requiredHeaders: { ...version, 'Upload-Offset': 'where the bytes belong' },
    headers: { 'Upload-Length': 'bytes of the file, told later', ...digestHeader },
    body: { [chunkType]: null },
    responses: { 204: null },
    responseHeaders: { 204: progress, ...otherVersion },
    codes: [...chunk, 'not_found', 'gone', 'offset_mismatch'],
  }),
  route('get', uploadPath, 'getUpload', uploads.readUpload, {
    params,
    summary: 'An upload: its state, and its file once every byte has arrived',
    who: 'key',
    responses: { 200: { [json]: ResumableUpload } },
    codes: ['not_found'],
  }),
  route('delete', uploadPath, 'deleteUpload', uploads.deleteUpload, {
    params,
    summary: 'Ends an upload of the key, or with the scope `keys` any of the account; a file that it stored stays',
    who: 'key',
    requiredHeaders: version,
    responses: { 204: null },
    responseHeaders: otherVersion,
    codes: ['precondition_failed', 'not_found'],
  }),
  options(uploadPath, 'describeUpload'),
];

export const uploadRoutes: readonly Route[] = rows.map((row) => ({ ...row, commonHeaders: ['Tus-Resumable'] }));
