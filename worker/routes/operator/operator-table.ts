/**
 * The rows of the operator's routes, all below one path, which a document of their own describes.
 */
import * as shapes from '../../../shared/api.ts';
import { listAccountUsage } from '../accounts/account-usage.ts';
import { changeAccount, createAccount, deleteAccount, listAccounts, readAccountSummary } from '../accounts/accounts.ts';
import { descriptionRoute } from '../openapi.ts';
import { readBackup, restoreBackup } from './backups.ts';
import { expositionType } from '../../http/exposition.ts';
import { allowCid, denyCid, readDenied } from './denylist.ts';
import { readMetrics } from './operator-metrics.ts';
import { cancelMigration, createMigration, listMigrations, listPins, repairPins } from './pins.ts';
import { listStrays, removeStrays } from './strays.ts';
import { route, type Route } from '../../openapi/route.ts';
import { json, usageDescription } from '../route-parts.ts';

const operatorPath = '/v1/operator';
const accounts = `${operatorPath}/accounts`;
const account = `${accounts}/:id`;
const denied = `${operatorPath}/denylist/:cid`;
const migrations = `${operatorPath}/migrations`;
const strays = `${operatorPath}/strays`;
const who = 'operator';
const ofAccount = { who, params: { id: shapes.AccountId } } as const;
const ofCid = { who, params: { cid: shapes.CidParameter }, codes: ['invalid_cid'] } as const;

export const operatorRoutes: readonly Route[] = [
  descriptionRoute(`${operatorPath}/openapi.json`, 'getOperatorDescription', {
    title: 'Sealpin, for the operator of a service',
    routes: () => operatorRoutes,
  }),
  route('post', accounts, 'createAccount', {
    summary: 'Creates an account and its first API key',
    who,
    body: { [json]: shapes.NewAccount },
    responses: { 201: { [json]: shapes.NewAccountResponse } },
    links: {
      getAccountSummary: { id: '/account/id' },
      changeAccount: { id: '/account/id' },
      deleteAccount: { id: '/account/id' },
    },
    codes: ['key_invalid'],
    handler: createAccount,
  }),
  route('get', accounts, 'listAccounts', {
    summary: 'A page of accounts with what they use, in no particular order',
    who,
    query: shapes.AccountQuery,
    responses: { 200: { [json]: shapes.AccountList } },
    handler: listAccounts,
  }),
  route('get', account, 'getAccountSummary', {
    ...ofAccount,
    summary: 'An account with what it uses',
    responses: { 200: { [json]: shapes.AccountSummary } },
    handler: readAccountSummary,
  }),
  route('patch', account, 'changeAccount', {
    ...ofAccount,
    summary: 'Changes label, quota or origins of an account, or disables all of its keys',
    body: { [json]: shapes.AccountChanges },
    responses: { 200: { [json]: shapes.AccountSummary } },
    handler: changeAccount,
  }),
  route('delete', account, 'deleteAccount', {
    ...ofAccount,
    summary: 'Deletes an account with everything in it',
    responses: { 200: { [json]: shapes.AccountReceipt } },
    handler: deleteAccount,
  }),
  route('get', `${account}/usage`, 'listAccountUsage', {
    ...ofAccount,
    summary: 'A page of what the API keys of an account used by day, the newest first',
    description: usageDescription,
    query: shapes.PageQuery,
    responses: { 200: { [json]: shapes.UsageList } },
    handler: listAccountUsage,
  }),
  route('get', `${account}/backup`, 'backUpAccount', {
    ...ofAccount,
    summary: 'A page of the backup of an account: what its objects hold of keys, files, shares, receipts and events',
    description:
      'No key that opens a file is in it: API keys are hashes; headers, the private key of the account and the ' +
      'records of shares are sealed. `next` is null on the last page.',
    query: shapes.BackupQuery,
    responses: { 200: { [json]: shapes.BackupPage } },
    codes: ['conflict'],
    handler: readBackup,
  }),
  route('put', `${account}/backup`, 'restoreAccount', {
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
    handler: restoreBackup,
  }),
  route('put', denied, 'denyCid', {
    ...ofCid,
    summary: 'Puts a CID on the denylist: its bytes are neither served nor stored any more',
    query: shapes.DenylistQuery,
    responses: { 200: { [json]: shapes.DenylistReceipt } },
    handler: denyCid,
  }),
  route('get', denied, 'getDeniedCid', {
    ...ofCid,
    summary: 'Since when a CID is on the denylist',
    responses: { 200: { [json]: shapes.DeniedCid } },
    handler: readDenied,
  }),
  route('delete', denied, 'allowCid', {
    ...ofCid,
    summary: 'Takes a CID off the denylist',
    query: shapes.DenylistQuery,
    responses: { 200: { [json]: shapes.DenylistReceipt } },
    handler: allowCid,
  }),
  route('get', `${operatorPath}/pins`, 'listPins', {
    summary: 'A page of the pins of all accounts, with the files that need them',
    who,
    query: shapes.PinsQuery,
    responses: { 200: { [json]: shapes.PinPage } },
    handler: listPins,
  }),
  route('post', `${operatorPath}/repair`, 'repairPins', {
    summary: 'Asks the pinning services for every pin, and copies again what is lost',
    who,
    responses: { 202: { [json]: shapes.Repair } },
    handler: repairPins,
  }),
  route('get', strays, 'listStrays', {
    summary: 'Objects in stores that belong to nothing, and are too many to be removed by themselves',
    who,
    responses: { 200: { [json]: shapes.StrayList } },
    handler: listStrays,
  }),
  route('delete', `${strays}/:service`, 'removeStrays', {
    summary: 'Lets these objects of a store be removed, once',
    who,
    responses: { 202: { [json]: shapes.StrayList } },
    handler: removeStrays,
  }),
  route('post', migrations, 'createMigration', {
    summary: 'Moves everything from one pinning service to another',
    description:
      'Both are configured. What is at `from` is unpinned once every byte was read from `to`. Can be repeated.',
    who,
    body: { [json]: shapes.MigrationRequest },
    responses: { 202: { [json]: shapes.Migration } },
    responseHeaders: { 202: ['Location'] },
    links: { cancelMigration: { from: '/from', to: '/to' } },
    handler: createMigration,
  }),
  route('get', migrations, 'listMigrations', {
    summary: 'How far the migrations are',
    who,
    responses: { 200: { [json]: shapes.MigrationList } },
    handler: listMigrations,
  }),
  route('delete', `${migrations}/:from/:to`, 'cancelMigration', {
    summary: 'Ends a migration; what has not moved stays where it was',
    who,
    responses: { 200: { [json]: shapes.Migration } },
    handler: cancelMigration,
  }),
  route('get', `${operatorPath}/metrics`, 'getMetrics', {
    summary: 'The service in numbers, in the text format of Prometheus',
    who: 'monitor',
    responses: { 200: { [expositionType]: null } },
    handler: readMetrics,
  }),
];
