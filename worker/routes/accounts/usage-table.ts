/** The rows of what API keys use by day. */
import { AccountId, PageQuery, UsageList } from '../../../shared/api.ts';
import type { Route } from '../../openapi/route.ts';
import { listAccountUsage, listUsage } from './account-usage.ts';

const common = {
  method: 'get',
  description:
    'A row for each key and day of UTC on which it made a request, for 90 days. What is counted arrives up to some 20 seconds later.',
  query: PageQuery,
  responses: { 200: { 'application/json': UsageList } },
  codes: [],
} as const;

export const usageRoutes: readonly Route[] = [
  {
    ...common,
    path: '/v1/usage',
    operationId: 'listUsage',
    summary: 'A page of what the API keys of the account used by day, the newest first',
    who: 'key',
    scope: 'read',
    handler: listUsage,
  },
  {
    ...common,
    path: '/v1/accounts/:id/usage',
    operationId: 'listAccountUsage',
    summary: 'A page of what the API keys of an account used by day, the newest first',
    params: { id: AccountId },
    who: 'operator',
    handler: listAccountUsage,
  },
];
