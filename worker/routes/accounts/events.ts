/** `GET /v1/events`: what happened in the account. */
import { AccountEvent, EventQuery, type EventList } from '../../../shared/api.ts';
import type { Principal } from '../../auth/authenticate.ts';
import { parseQuery, type Ctx } from '../../http/app.ts';
import type { EventRecord } from '../../objects/account/event-rows.ts';
import { eventColumns } from '../../objects/account/tables.ts';
import { viewed } from '../../objects/columns.ts';
import { unwrap } from '../../objects/result.ts';
import { cursorOf } from '../page.ts';

/** A page of events, oldest first. */
export async function listEvents(c: Ctx, { account, key }: Principal): Promise<Response> {
  const { after, limit } = parseQuery(c, EventQuery);
  const position = after === undefined ? undefined : Number.parseInt(after, 36);
  const { events, next, more } = await unwrap(account.events(key.hash, { after: position, limit }));
  return c.json<EventList>({ events: events.map((event) => eventView(event)), ...cursorOf({ next }), more });
}

/** The member that has the ID of what an event happened to, by the first word of its action. */
const members = { file: 'fileId', key: 'keyId', share: 'shareId' } as const;

function eventView(event: EventRecord): AccountEvent {
  const [kind = ''] = event.action.split('.', 1);
  return {
    id: event.number.toString(36),
    ...viewed(eventColumns, AccountEvent, event),
    ...(kind in members ? { [members[kind as keyof typeof members]]: event.subject } : {}),
  };
}
