/** What each route takes and answers, as `/v1/openapi.json` tells it. A test holds every answer against this table. */
import type * as v from 'valibot';
import {
  AccountAnswer,
  AccountReceipt,
  ApiKeyList,
  FileList,
  FileWithData,
  Health,
  HealthQuery,
  JsonUpload,
  ListQuery,
  NewAccount,
  NewAccountAnswer,
  NewApiKey,
  NewApiKeyAnswer,
  ReadQuery,
  Receipt,
  Recover,
  Revoked,
  RevokeQuery,
  StoredFile,
  UploadQuery,
  type Scope,
} from '../../shared/api.ts';
import type { Code } from '../../shared/errors.ts';

type Types = Record<string, v.GenericSchema | null>;

export type Operation = {
  method: 'get' | 'post' | 'delete';
  path: string;
  summary: string;
  /** `address`: anybody, counted by address. */
  who: 'anybody' | 'address' | 'operator' | 'key';
  scope?: Scope;
  query?: v.GenericSchema;
  /** Parameters of the query that are parsed by hand, in words. */
  queries?: Record<string, string>;
  headers?: Record<string, string>;
  body?: Types;
  /** By status, then by media type; null: bytes without a shape, or no body. */
  answers: Record<number, Types | null>;
  /** Besides those that its guard and every route may answer with. */
  codes: readonly Code[];
};

/** The parameters of an operation's query. */
export function queryNames({ query, queries = {} }: Operation): string[] {
  const { entries = {} } = (query ?? {}) as { entries?: object };
  return [...Object.keys(entries), ...Object.keys(queries)];
}

const json = 'application/json';
const bytes = 'application/octet-stream';
const badJson: readonly Code[] = ['invalid_json', 'invalid_request', 'too_large'];
const pinning: readonly Code[] = ['pinning_failed', 'pinning_unavailable', 'pinning_timeout', 'disk_full'];
const reading: readonly Code[] = [...pinning, 'pinning_lost', 'content_mismatch'];
const conditions = { 'If-Match': 'ETags', 'If-None-Match': 'ETags' };
const dates = { 'If-Modified-Since': 'an HTTP-date', 'If-Unmodified-Since': 'an HTTP-date' };
const range = { Range: 'one range of bytes', 'If-Range': 'an ETag' };

function upload(mode: 'encrypted' | 'plain'): Operation {
  return {
    method: 'post',
    path: `/v1/storage/${mode}`,
    summary:
      mode === 'encrypted' ? 'Stores a file, encrypted to the account’s public key' : 'Stores a file as it comes',
    who: 'key',
    scope: 'write',
    ...(mode === 'plain' ? { query: UploadQuery } : {}),
    headers: {
      'Content-Disposition': 'the filename, for a body that is not JSON',
      'Content-Digest': 'part of what makes a second request with an Idempotency-Key the same',
      'Idempotency-Key': 'the same key: the same file',
    },
    body: { [json]: JsonUpload, '*/*': null },
    answers: { 201: { [json]: StoredFile } },
    codes: [
      'invalid_request',
      'invalid_json',
      'invalid_base64',
      'invalid_filename',
      'invalid_cid',
      'body_incomplete',
      'body_timeout',
      'too_large',
      'unsupported_media_type',
      'idempotency_running',
      'idempotency_mismatch',
      ...(mode === 'plain' ? (['cid_mismatch'] as const) : []),
      ...pinning,
    ],
  };
}

export const operations: readonly Operation[] = [
  {
    method: 'get',
    path: '/v1/health',
    summary: 'Whether the service can store and read (503 if not), its version and limits',
    who: 'anybody',
    query: HealthQuery,
    answers: { 200: { [json]: Health }, 503: { [json]: Health } },
    codes: ['invalid_request'],
  },
  {
    method: 'get',
    path: '/v1/openapi.json',
    summary: 'This description',
    who: 'anybody',
    answers: { 200: { [json]: null } },
    codes: [],
  },
  {
    method: 'post',
    path: '/v1/accounts',
    summary: 'Makes an account and its first API key',
    who: 'operator',
    body: { [json]: NewAccount },
    answers: { 201: { [json]: NewAccountAnswer } },
    codes: [...badJson, 'key_invalid'],
  },
  {
    method: 'delete',
    path: '/v1/accounts/:id',
    summary: 'Deletes an account with all of it',
    who: 'operator',
    answers: { 200: { [json]: AccountReceipt } },
    codes: [],
  },
  {
    method: 'get',
    path: '/v1/accounts/:id/recovery',
    summary: 'The recovery file: private key and recovery secret, encrypted to the account’s recovery key',
    who: 'address',
    answers: { 200: { [bytes]: null } },
    codes: ['not_found'],
  },
  {
    method: 'post',
    path: '/v1/accounts/:id/recover',
    summary: 'A new key for the text of the opened recovery file; all other keys are revoked, the file is replaced',
    who: 'address',
    body: { [json]: Recover },
    answers: { 201: { [json]: NewAccountAnswer } },
    codes: [...badJson, 'not_found', 'key_invalid', 'forbidden'],
  },
  {
    method: 'get',
    path: '/v1/account',
    summary: 'The account, what it uses, and the caller’s key',
    who: 'key',
    answers: { 200: { [json]: AccountAnswer } },
    codes: [],
  },
  {
    method: 'post',
    path: '/v1/keys',
    summary: 'Makes an API key within the scopes and the expiry of the caller’s',
    who: 'key',
    scope: 'keys',
    body: { [json]: NewApiKey },
    answers: { 201: { [json]: NewApiKeyAnswer } },
    codes: [...badJson, 'forbidden'],
  },
  {
    method: 'get',
    path: '/v1/keys',
    summary: 'The keys that are not revoked; the caller’s is marked',
    who: 'key',
    scope: 'keys',
    answers: { 200: { [json]: ApiKeyList } },
    codes: [],
  },
  {
    method: 'delete',
    path: '/v1/keys/:id',
    summary: 'Revokes a key; the caller’s own only with self=true, the last with read or keys only with destroy=true',
    who: 'key',
    scope: 'keys',
    query: RevokeQuery,
    answers: { 200: { [json]: Revoked } },
    codes: ['invalid_request', 'not_found', 'conflict'],
  },
  upload('encrypted'),
  upload('plain'),
  {
    method: 'get',
    path: '/v1/storage',
    summary: 'A page of files, newest first',
    who: 'key',
    scope: 'read',
    query: ListQuery,
    answers: { 200: { [json]: FileList } },
    codes: ['invalid_request', 'invalid_cid', 'decrypt_failed'],
  },
  {
    method: 'get',
    path: '/v1/storage/:fileId',
    summary: 'A file: with its data, its bytes alone, or its container',
    who: 'key',
    scope: 'read',
    query: ReadQuery,
    headers: { Accept: 'which of them', ...conditions, ...dates, ...range },
    answers: {
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
  },
  {
    method: 'delete',
    path: '/v1/storage/:fileId',
    summary: 'Deletes a file',
    who: 'key',
    scope: 'delete',
    answers: { 200: { [json]: Receipt } },
    codes: ['not_found'],
  },
  {
    method: 'get',
    path: '/ipfs/:cid',
    summary: 'What is stored under a CID, for anybody',
    who: 'address',
    queries: {
      format: 'car or raw; goes before Accept',
      'dag-scope': 'of a CAR: block, entity or all',
      'entity-bytes': 'of a CAR: from:to, inclusive; to may be *',
      'car-version': '1',
      'car-order': 'dfs',
      'car-dups': 'y or n',
      filename: 'of the attachment',
    },
    headers: { Accept: 'the bytes, application/vnd.ipld.car or application/vnd.ipld.raw', ...conditions, ...range },
    answers: { 200: { '*/*': null }, 206: { '*/*': null }, 304: null },
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
  },
];
