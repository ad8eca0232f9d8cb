/** The rows of accounts as their keys see them: keys, events, usage, and the recovery. */
import * as shapes from '../../../shared/api.ts';
import { listUsage } from './account-usage.ts';
import { readAccount, readRecovery, recoverAccount } from './accounts.ts';
import { listEvents } from './events.ts';
import { createKey, listKeys, revokeKey } from './keys.ts';
import { rotateAccount } from './rotation.ts';
import { json, usageDescription } from '../route-parts.ts';
import { keyWith, route, type Route } from '../../openapi/route.ts';

export const accountRoutes: readonly Route[] = [
  route('get', '/v1/accounts/:id/recovery', 'getRecoveryFile', readRecovery, {
    summary: 'The recovery file: private key and recovery secret, encrypted to the account’s recovery key',
    params: { id: shapes.AccountId },
    who: 'address',
    responses: { 200: { 'application/octet-stream': null } },
    responseHeaders: { 200: ['Content-Disposition'] },
    codes: ['not_found', 'account_disabled'],
  }),
  route('post', '/v1/accounts/:id/recover', 'recoverAccount', recoverAccount, {
    summary: 'Creates an API key for the text of the opened recovery file, revokes all others, and replaces the file',
    params: { id: shapes.AccountId },
    who: 'address',
    body: { [json]: shapes.Recover },
    responses: { 201: { [json]: shapes.NewAccountResponse } },
    codes: ['not_found', 'account_disabled', 'key_invalid', 'forbidden'],
  }),
  route('get', '/v1/account', 'getAccount', readAccount, {
    summary: 'The account, what it uses, and the caller’s key',
    who: 'key',
    responses: { 200: { [json]: shapes.AccountDetails } },
  }),
  route('post', '/v1/account/rotation', 'rotateAccount', rotateAccount, {
    summary: 'Replaces the key pair of the account, and seals up to 200 headers to the new one; repeat it until done',
    description:
      'The request with the current public key begins: it revokes all other keys with `read`, and replaces the ' +
      'recovery file. Every further one with that same public key continues.',
    ...keyWith('read', 'keys'),
    body: { [json]: shapes.RotationRequest },
    responses: { 200: { [json]: shapes.Rotation } },
    codes: ['key_invalid', 'conflict'],
  }),
  route('post', '/v1/keys', 'createKey', createKey, {
    summary: 'Creates an API key within the scopes, the expiry and the limits of the caller’s',
    description: '`send` goes with no other scope, and needs `write`, `share` and `delete`.',
    ...keyWith('keys'),
    body: { [json]: shapes.NewApiKey },
    responses: { 201: { [json]: shapes.NewApiKeyResponse } },
    links: { revokeKey: { id: '/key/id' } },
    codes: ['forbidden', 'conflict', 'quota_exceeded'],
  }),
  route('get', '/v1/keys', 'listKeys', listKeys, {
    summary: 'The keys that are not revoked; the caller’s is marked',
    ...keyWith('keys'),
    responses: { 200: { [json]: shapes.ApiKeyList } },
  }),
  route('delete', '/v1/keys/:id', 'revokeKey', revokeKey, {
    summary: 'Revokes a key; the caller’s own only with self=true, the last with read or keys only with destroy=true',
    params: { id: shapes.KeyId },
    ...keyWith('keys'),
    query: shapes.RevokeQuery,
    responses: { 200: { [json]: shapes.Revoked } },
    codes: ['not_found', 'conflict'],
  }),
  route('get', '/v1/events', 'listEvents', listEvents, {
    summary: `What happened in the account, oldest first, for ${shapes.eventDays} days`,
    description:
      'A key sees what it did itself; with `read` the events of files, with `share` of shares, with `keys` of keys, ' +
      'files and the account.',
    ...keyWith('read'),
    instead: ['share', 'keys'],
    query: shapes.EventQuery,
    responses: { 200: { [json]: shapes.EventList } },
    codes: ['gone'],
  }),
  route('get', '/v1/usage', 'listUsage', listUsage, {
    summary: 'A page of what the API keys of the account used by day, the newest first',
    description: usageDescription,
    ...keyWith('read'),
    query: shapes.PageQuery,
    responses: { 200: { [json]: shapes.UsageList } },
  }),
];
