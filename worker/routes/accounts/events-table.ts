/** The row of `/v1/events`. */
import { EventList, EventQuery } from '../../../shared/api.ts';
import { listEvents } from './events.ts';
import type { Route } from '../../openapi/route.ts';

export const eventRoutes: readonly Route[] = [
  {
    method: 'get',
    path: '/v1/events',
    operationId: 'listEvents',
    summary: 'What happened in the account, oldest first, for 90 days',
    description:
      'A key sees what it did itself; with `read` the events of files, with `share` of shares, with `keys` of keys, files and the account.',
    who: 'key',
    query: EventQuery,
    responses: { 200: { 'application/json': EventList } },
    codes: ['gone'],
    handler: listEvents,
  },
];
