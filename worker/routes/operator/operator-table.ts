/** The rows of the operator's routes: accounts as a whole, the denylist, metrics. */
import {
  AccountChanges,
  AccountId,
  AccountList,
  AccountQuery,
  AccountReceipt,
  AccountSummary,
  BackupPage,
  BackupQuery,
  CidParameter,
  DeniedCid,
  DenylistQuery,
  DenylistReceipt,
  RestoredPage,
  restoreHeader,
} from '../../../shared/api.ts';
import type { Code } from '../../../shared/errors.ts';
import { changeAccount, deleteAccount, listAccounts, readAccountSummary } from '../accounts/accounts.ts';
import { readBackup, restoreBackup } from './backups.ts';
import { expositionType } from '../../http/exposition.ts';
import { allowCid, denyCid, readDenied } from './denylist.ts';
import { readMetrics } from './operator-metrics.ts';
import type { Route } from '../../openapi/route.ts';

const json = 'application/json';
const badJson: readonly Code[] = ['invalid_json', 'too_large', 'unsupported_media_type'];
const account = '/v1/accounts/:id';
const denied = '/v1/denylist/:cid';
const ofCid = { params: { cid: CidParameter }, who: 'operator', codes: ['invalid_cid'] } as const;

export const operatorRoutes: readonly Route[] = [
  {
    method: 'get',
    path: '/v1/accounts',
    operationId: 'listAccounts',
    summary: 'A page of accounts with what they use, in no particular order',
    who: 'operator',
    query: AccountQuery,
    responses: { 200: { [json]: AccountList } },
    codes: [],
    handler: listAccounts,
  },
  {
    method: 'get',
    path: account,
    operationId: 'getAccountSummary',
    summary: 'An account with what it uses',
    params: { id: AccountId },
    who: 'operator',
    responses: { 200: { [json]: AccountSummary } },
    codes: [],
    handler: readAccountSummary,
  },
  {
    method: 'patch',
    path: account,
    operationId: 'changeAccount',
    summary: 'Changes label, quota or origins of an account, or disables all of its keys',
    params: { id: AccountId },
    who: 'operator',
    body: { [json]: AccountChanges },
    responses: { 200: { [json]: AccountSummary } },
    codes: badJson,
    handler: changeAccount,
  },
  {
    method: 'delete',
    path: account,
    operationId: 'deleteAccount',
    summary: 'Deletes an account with everything in it',
    params: { id: AccountId },
    who: 'operator',
    responses: { 200: { [json]: AccountReceipt } },
    codes: [],
    handler: deleteAccount,
  },
  {
    method: 'get',
    path: `${account}/backup`,
    operationId: 'backUpAccount',
    summary: 'A page of the backup of an account: what its objects hold of keys, files, shares, receipts and events',
    description:
      'No key that opens a file is in it: API keys are hashes; headers, the private key of the account and the ' +
      'records of shares are sealed. `next` is null on the last page.',
    params: { id: AccountId },
    who: 'operator',
    query: BackupQuery,
    responses: { 200: { [json]: BackupPage } },
    codes: [],
    handler: readBackup,
  },
  {
    method: 'put',
    path: `${account}/backup`,
    operationId: 'restoreAccount',
    summary: 'Restores a page of a backup, in the order of the pages, into a service that does not have the account',
    description:
      'A page may be repeated. The keys of the account are disabled until the last page is restored. `unpinned` ' +
      'names files whose bytes the pinning service does not hold.',
    params: { id: AccountId },
    who: 'operator',
    requiredHeaders: { [restoreHeader]: 'the `RESTORE_TOKEN` of the service, without which there is no such route' },
    body: { [json]: BackupPage },
    responses: { 200: { [json]: RestoredPage } },
    codes: [...badJson, 'conflict', 'pinning_unavailable', 'pinning_timeout', 'pinning_failed'],
    handler: restoreBackup,
  },
  {
    ...ofCid,
    method: 'put',
    path: denied,
    operationId: 'denyCid',
    summary: 'Puts a CID on the denylist: its bytes are neither served nor stored any more',
    query: DenylistQuery,
    codes: ['invalid_cid', 'invalid_request'],
    responses: { 200: { [json]: DenylistReceipt } },
    handler: denyCid,
  },
  {
    ...ofCid,
    method: 'get',
    path: denied,
    operationId: 'getDeniedCid',
    summary: 'Since when a CID is on the denylist',
    responses: { 200: { [json]: DeniedCid } },
    handler: readDenied,
  },
  {
    ...ofCid,
    method: 'delete',
    path: denied,
    operationId: 'allowCid',
    summary: 'Takes a CID off the denylist',
    query: DenylistQuery,
    codes: ['invalid_cid', 'invalid_request'],
    responses: { 200: { [json]: DenylistReceipt } },
    handler: allowCid,
  },
  {
    method: 'get',
    path: '/v1/metrics',
    operationId: 'getMetrics',
    summary: 'The service in numbers, in the text format of Prometheus',
    who: 'monitor',
    responses: { 200: { [expositionType]: null } },
    codes: [],
    handler: readMetrics,
  },
];
