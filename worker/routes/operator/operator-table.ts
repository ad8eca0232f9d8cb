/** The rows of the operator's routes, which a document of their own describes. */
import * as shapes from '../../../shared/api.ts';
import { listAccountUsage } from '../accounts/account-usage.ts';
import { changeAccount, createAccount, deleteAccount, listAccounts, readAccountSummary } from '../accounts/accounts.ts';
import { descriptionRoute } from '../openapi.ts';
import { readBackup, restoreBackup } from './backups.ts';
import { expositionType } from '../../http/exposition.ts';
import { changeDenylist, readDenied } from './denylist.ts';
import { readMetrics } from './operator-metrics.ts';
import { cancelMigration, createMigration, listMigrations, listPins, repairPins } from './pins.ts';
import { listStrays, removeStrays } from './strays.ts';
import { route, type Handler, type Method, type Route, type RouteRow } from '../../openapi/route.ts';
import { json, usageDescription } from '../route-parts.ts';

const ofAccount = { params: { id: shapes.AccountId } };
const ofCid = { params: { cid: shapes.CidParameter }, codes: ['invalid_cid'] } as const;

function operatorRoute(method: Method, path: string, id: string, handler: Handler, row: RouteRow<object>): Route {
  return route(method, `/v1/operator/${path}`, id, handler, { ...row, who: 'operator' });
}

export const operatorRoutes: readonly Route[] = [
  descriptionRoute('/v1/operator/openapi.json', 'getOperatorDescription', {
    title: 'Sealpin, for the operator of a service',
    routes: () => operatorRoutes,
  }),
  operatorRoute('post', 'accounts', 'createAccount', createAccount, {
    summary: 'Creates an account and its first API key',
    body: { [json]: shapes.NewAccount },
    responses: { 201: { [json]: shapes.NewAccountResponse } },
    links: {
      getAccountSummary: { id: '/account/id' },
      changeAccount: { id: '/account/id' },
      deleteAccount: { id: '/account/id' },
    },
    codes: ['key_invalid'],
  }),
  operatorRoute('get', 'accounts', 'listAccounts', listAccounts, {
    summary: 'A page of accounts with what they use, in no particular order',
    query: shapes.AccountQuery,
    responses: { 200: { [json]: shapes.AccountList } },
  }),
  operatorRoute('get', 'accounts/:id', 'getAccountSummary', readAccountSummary, {
    ...ofAccount,
    summary: 'An account with what it uses',
    responses: { 200: { [json]: shapes.AccountSummary } },
  }),
  operatorRoute('patch', 'accounts/:id', 'changeAccount', changeAccount, {
    ...ofAccount,
    summary: 'Changes label, quota or origins of an account, or disables all of its keys',
    body: { [json]: shapes.AccountChanges },
    responses: { 200: { [json]: shapes.AccountSummary } },
  }),
  operatorRoute('delete', 'accounts/:id', 'deleteAccount', deleteAccount, {
    ...ofAccount,
    summary: 'Deletes an account with everything in it',
    responses: { 200: { [json]: shapes.AccountReceipt } },
  }),
  operatorRoute('get', 'accounts/:id/usage', 'listAccountUsage', listAccountUsage, {
    ...ofAccount,
    summary: 'A page of what the API keys of an account used by day, the newest first',
    description: usageDescription,
    query: shapes.PageQuery,
    responses: { 200: { [json]: shapes.UsageList } },
  }),
  operatorRoute('get', 'accounts/:id/backup', 'backUpAccount', readBackup, {
    ...ofAccount,
    summary: 'A page of the backup of an account: what its objects hold of keys, files, shares, receipts and events',
    description:
      'No key that opens a file is in it: API keys are hashes; headers, the private key of the account and the ' +
      'records of shares are sealed. `next` is null on the last page.',
    query: shapes.BackupQuery,
    responses: { 200: { [json]: shapes.BackupPage } },
    codes: ['conflict'],
  }),
  operatorRoute('put', 'accounts/:id/backup', 'restoreAccount', restoreBackup, {
    ...ofAccount,
    summary: 'Restores a page of a backup, in the order of the pages, into a service that does not have the account',
    description:
      'A page may be repeated. The keys of the account are disabled until the last page is restored. `unpinned` ' +
      'names files whose bytes the pinning service does not hold.',
    requiredHeaders: {
      [shapes.restoreHeader]: 'the `RESTORE_TOKEN` of the service, without which there is no such route',
    },
    body: { [json]: shapes.BackupPage },
    responses: { 200: { [json]: shapes.RestoredPage } },
    codes: ['conflict', 'pinning_unavailable', 'pinning_timeout', 'pinning_failed'],
  }),
  operatorRoute('put', 'denylist/:cid', 'denyCid', (c) => changeDenylist(c, true), {
    ...ofCid,
    summary: 'Puts a CID on the denylist: its bytes are neither served nor stored any more',
    query: shapes.DenylistQuery,
    responses: { 200: { [json]: shapes.DenylistReceipt } },
  }),
  operatorRoute('get', 'denylist/:cid', 'getDeniedCid', readDenied, {
    ...ofCid,
    summary: 'Since when a CID is on the denylist',
    responses: { 200: { [json]: shapes.DeniedCid } },
  }),
  operatorRoute('delete', 'denylist/:cid', 'allowCid', (c) => changeDenylist(c, false), {
    ...ofCid,
    summary: 'Takes a CID off the denylist',
    query: shapes.DenylistQuery,
    responses: { 200: { [json]: shapes.DenylistReceipt } },
  }),
  operatorRoute('get', 'pins', 'listPins', listPins, {
    summary: 'A page of the pins of all accounts, with the files that need them',
    query: shapes.PinsQuery,
    responses: { 200: { [json]: shapes.PinPage } },
  }),
  operatorRoute('post', 'repair', 'repairPins', repairPins, {
    summary: 'Asks the pinning services for every pin, and copies again what is lost',
    responses: { 202: { [json]: shapes.Repair } },
  }),
  operatorRoute('get', 'strays', 'listStrays', listStrays, {
    summary: 'Objects in stores that belong to nothing, and are too many to be removed by themselves',
    responses: { 200: { [json]: shapes.StrayList } },
  }),
  operatorRoute('delete', 'strays/:service', 'removeStrays', removeStrays, {
    summary: 'Lets these objects of a store be removed, once',
    responses: { 202: { [json]: shapes.StrayList } },
  }),
  operatorRoute('post', 'migrations', 'createMigration', createMigration, {
    summary: 'Moves everything from one pinning service to another',
    description:
      'Both are configured. What is at `from` is unpinned once every byte was read from `to`. Can be repeated.',
    body: { [json]: shapes.MigrationRequest },
    responses: { 202: { [json]: shapes.Migration } },
    responseHeaders: { 202: ['Location'] },
    links: { cancelMigration: { from: '/from', to: '/to' } },
  }),
  operatorRoute('get', 'migrations', 'listMigrations', listMigrations, {
    summary: 'How far the migrations are',
    responses: { 200: { [json]: shapes.MigrationList } },
  }),
  operatorRoute('delete', 'migrations/:from/:to', 'cancelMigration', cancelMigration, {
    summary: 'Ends a migration; what has not moved stays where it was',
    responses: { 200: { [json]: shapes.Migration } },
  }),
  route('get', '/v1/operator/metrics', 'getMetrics', readMetrics, {
    summary: 'The service in numbers, in the text format of Prometheus',
    who: 'monitor',
    responses: { 200: { [expositionType]: null } },
  }),
];
