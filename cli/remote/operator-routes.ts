/** The operator's routes that the command line uses (docs/operating.md). */
import * as shapes from '../../shared/api.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { headerOf } from '../io/http.ts';
import { type ApiCaller, call, jsonIn, queryOf, requester } from './client.ts';
import { firstItems, pages } from './pages.ts';

const pagePins = 100;
/** Far more than a service has: a hostile one must not make us ask without end. */
const maxAccounts = 1_000_000;

export type Operator = ReturnType<typeof operator>;

/** The operator's routes of a service. Each fails with its problem, and as `sendRequest`. */
export function operator(service: ApiCaller, context: Pick<Context, 'signal' | 'timeouts'>) {
  const request = requester(service, context);
  const accountPath = (id: string): string => `v1/operator/accounts/${encodeURIComponent(id)}`;
  return {
    create: (account: shapes.NewAccount) => request(shapes.NewAccountResponse, 'v1/operator/accounts', 'POST', account),
    /** All accounts, the oldest first. */
    async list(): Promise<shapes.AccountSummary[]> {
      const { items, isComplete } = await firstItems(maxAccounts, 'accounts', (page) =>
        request(shapes.AccountList, `v1/operator/accounts${queryOf(page)}`),
      );
      if (!isComplete) throw new SealpinError('service_answer', "the service's list of accounts never ends");
      return items.toSorted((a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt));
    },
    change: (id: string, changes: shapes.AccountChanges) =>
      forAccount(request(shapes.AccountSummary, accountPath(id), 'PATCH', changes)),
    remove: (id: string) => forAccount(request(shapes.AccountReceipt, accountPath(id), 'DELETE')),
    /**
     * Has every pin looked at.
     * @returns when that began, by the service's clock where it says so, in ms
     */
    async repair(): Promise<number> {
      const { signal, timeouts } = context;
      const response = await call(service, 'v1/operator/repair', { method: 'POST', signal, timeouts });
      await jsonIn(response, shapes.Repair, service.url);
      const begun = Date.parse(headerOf(response, 'date') ?? '');
      return Number.isNaN(begun) ? Date.now() : begun;
    },
    /** A page of all pins. */
    pinPage: (cursor: string | undefined) =>
      request(shapes.PinPage, `v1/operator/pins${queryOf({ limit: pagePins, cursor })}`),
    /** The pins in a state. */
    async *pins(state: shapes.SurveyState): AsyncGenerator<shapes.SurveyedPin, void, undefined> {
      const found = pages('pins', (page) => request(shapes.PinPage, `v1/operator/pins${queryOf({ state, ...page })}`));
      for await (const { items } of found) yield* items;
    },
    /** Begins to move what one backend holds to another, both by their IDs, or resumes it. */
    migrate: (from: string, to: string) => request(shapes.Migration, 'v1/operator/migrations', 'POST', { from, to }),
    migrations: async () => (await request(shapes.MigrationList, 'v1/operator/migrations')).migrations,
    cancelMigration: (from: string, to: string) =>
      request(
        shapes.Migration,
        `v1/operator/migrations/${encodeURIComponent(from)}/${encodeURIComponent(to)}`,
        'DELETE',
      ),
  };
}

/** A request for one account: people know its label, and the routes take its ID. */
function forAccount<T>(request: Promise<T>): Promise<T> {
  return request.catch((error: unknown) => {
    if (!isSealpinError(error, 'not_found') || !error.message.includes('account')) throw error;
    throw new SealpinError('not_found', error.message, {
      hint: 'give the ID of the account: sealpin account list',
      cause: error,
    });
  });
}
