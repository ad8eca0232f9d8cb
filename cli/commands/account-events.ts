import { type AccountEvent, eventDays, EventList } from '../../shared/api.ts';
import { endlessList } from '../../client/attempts.ts';
import { sleep } from '../../shared/streams/timing.ts';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand, toggle, valueFlag } from '../command.ts';
import type { Context } from '../context.ts';
import { authorizedService, queryOf, requester } from '../remote/client.ts';
import { rowLines, shownTime } from '../terminal/fitted-row.ts';

/** Time between two questions whether something has happened, in ms. */
const eventsPollMs = 2_000;
/** The most of a page. */
const pageEvents = 100;

export const command = defineCommand({
  about:
    `Prints what happened in the account in the last ${eventDays} days, as far as the API key may see it, the oldest ` +
    'first: time, action, what it happened to, and the API key that did it. With --follow it waits for more, until ' +
    'Ctrl-C. With --json each line is one object, whose id is where --after continues.',
  args: { after: valueFlag('id', 'Only what came after this event'), follow: toggle('Wait for what happens next') },
  service: true,
  examples: [
    { command: 'sealpin events', does: 'All that is known' },
    { command: 'sealpin events --follow --json', does: 'For a program: one object a line' },
  ],
  async run({ args, context }) {
    const { output, signal } = context;
    if (args.after !== undefined && !/^[1-9a-z][\da-z]{0,10}$/.test(args.after))
      throw new SealpinError('usage', '--after is the id of an event', { hint: 'sealpin events --json shows them' });
    const request = requester(await authorizedService(context), context);
    let { after } = args;
    let last: string | undefined;
    const look = endlessList();
    for (;;) {
      const { events, cursor, more } = await request(EventList, `v1/events${queryOf({ after, limit: pageEvents })}`);
      for (const event of events) {
        await output.result(event, eventLines(event, context));
        last = event.id;
      }
      after = cursor ?? after;
      if (more) look(events.length, after ?? '');
      if (more) continue;
      if (!args.follow) break;
      await sleep(eventsPollMs, signal);
      signal.throwIfAborted();
    }
    if (last === undefined) output.note('nothing has happened');
    else output.note(`what comes next: sealpin events --after ${last}`);
  },
});

function eventLines({ time, action, by, fileId, keyId, shareId }: AccountEvent, context: Context): string[] {
  const what = fileId ?? keyId ?? shareId ?? [];
  const whom = by === undefined ? [] : `by ${by}`;
  const plain = [time, action.padEnd(17), what, whom].flat().join('  ');
  const name = [action, whom].flat().join('  ');
  return rowLines({ about: shownTime(time, context), name, below: [what].flat() }, context, plain);
}
