/** `GET /v1/events`: what happened in the account. */
import { EventQuery, type AccountEvent, type EventList } from '../../../shared/api.ts';
import type { Principal } from '../../auth/authenticate.ts';
import { parseQuery, type Ctx } from '../../http/app.ts';
import type { EventRecord } from '../../objects/account/event-rows.ts';
import { unwrap } from '../../objects/result.ts';
import { cursorOf } from '../page.ts';

/** A page of events, oldest first. */
export async function listEvents(c: Ctx, { account, key }: Principal): Promise<Response> {
  const { after, limit } = parseQuery(c, EventQuery);
  const position = after === undefined ? undefined : Number.parseInt(after, 36);
  const { events, next, more } = await unwrap(account.events(key.hash, { after: position, limit }));
  const body: EventList = { events: events.map((event) => eventView(event)), ...cursorOf({ next }), more };
  return c.json(body, 200, { 'Cache-Control': 'no-store' });
}

/** The member that has the ID of what an event happened to, by the first word of its action. */
const members = { file: 'fileId', key: 'keyId', share: 'shareId' } as const;

function eventView({ seq, time, action, by, subject }: EventRecord): AccountEvent {
  const [kind = ''] = action.split('.', 1);
  return {
    id: seq.toString(36),
    time: new Date(time).toISOString(),
    action,
    ...(by === null ? {} : { by }),
    ...(kind in members ? { [members[kind as keyof typeof members]]: subject } : {}),
  };
}
