/** The operator's routes that the command line uses (docs/operating.md). */
import {
  AccountList,
  AccountReceipt,
  AccountSummary,
  Migration,
  MigrationList,
  NewAccountResponse,
  type AccountChanges,
  type NewAccount,
} from '../../shared/api.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { call, type Caller, json, jsonBody } from './client.ts';

const pageAccounts = 100;
/** Far more than a service has: a hostile one must not make us ask without end. */
const maxPages = 10_000;

/** Every method throws the problem that the service reports, and the codes of `send`. */
export interface Operator {
  create(account: NewAccount): Promise<NewAccountResponse>;
  /** All accounts, the oldest first. */
  list(): Promise<AccountSummary[]>;
  change(id: string, changes: AccountChanges): Promise<AccountSummary>;
  remove(id: string): Promise<AccountReceipt>;
  /** Begins to move what one pinning service holds to another, both by their IDs, or goes on with it. */
  migrate(from: string, to: string): Promise<Migration>;
  migrations(): Promise<Migration[]>;
  cancelMigration(from: string, to: string): Promise<Migration>;
}

/** The operator's routes of a service. */
export function operator(service: Caller, context: Pick<Context, 'signal' | 'timeouts'>): Operator {
  const { url } = service;
  const common = { signal: context.signal, timeouts: context.timeouts };
  const accountPath = (id: string): string => `v1/operator/accounts/${encodeURIComponent(id)}`;
  return {
    async create(account) {
      const response = await call(service, 'v1/operator/accounts', { method: 'POST', ...jsonBody(account), ...common });
      return await json(response, NewAccountResponse, url);
    },
    async list() {
      const accounts: AccountSummary[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < maxPages; page += 1) {
        const query = new URLSearchParams({
          limit: String(pageAccounts),
          ...(cursor === undefined ? {} : { cursor }),
        });
        const response = await call(service, `v1/operator/accounts?${query}`, { method: 'GET', ...common });
        const found = await json(response, AccountList, url);
        accounts.push(...found.accounts);
        ({ cursor } = found);
        if (cursor === undefined) return accounts.toSorted((a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt));
      }
      throw new SealpinError('service_answer', "the service's list of accounts never ends");
    },
    async change(id, changes) {
      const response = await named(
        call(service, accountPath(id), { method: 'PATCH', ...jsonBody(changes), ...common }),
      );
      return await json(response, AccountSummary, url);
    },
    async remove(id) {
      const response = await named(call(service, accountPath(id), { method: 'DELETE', ...common }));
      return await json(response, AccountReceipt, url);
    },
    async migrate(from, to) {
      const response = await call(service, 'v1/operator/migrations', {
        method: 'POST',
        ...jsonBody({ from, to }),
        ...common,
      });
      return await json(response, Migration, url);
    },
    async migrations() {
      const response = await call(service, 'v1/operator/migrations', { method: 'GET', ...common });
      return (await json(response, MigrationList, url)).migrations;
    },
    async cancelMigration(from, to) {
      const path = `v1/operator/migrations/${encodeURIComponent(from)}/${encodeURIComponent(to)}`;
      return await json(await call(service, path, { method: 'DELETE', ...common }), Migration, url);
    },
  };
}

/** A request for one account: people know its label, and the routes take its ID. */
function named<T>(request: Promise<T>): Promise<T> {
  return request.catch((error: unknown) => {
    if (!isSealpinError(error, 'not_found') || !error.message.includes('account')) throw error;
    throw new SealpinError('not_found', error.message, {
      hint: 'give the ID of the account: sealpin account list',
      cause: error,
    });
  });
}
