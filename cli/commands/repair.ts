/** `sealpin repair`: what the operator does where bytes may be missing or damaged. */
import type { SurveyedPin } from '../../shared/api.ts';
import { exitOf } from '../../shared/errors.ts';
import { sleep } from '../../shared/streams/timing.ts';
import { defineCommand } from '../command.ts';
import { troubleOf } from '../files/trouble-line.ts';
import { operatedService } from '../remote/client.ts';
import { operator } from '../remote/operator-routes.ts';
import { countText } from '../terminal/size.ts';

/** Looks at the same page in a row at which nothing may have happened to it. */
const idlePolls = 20;
/** The header `Date` has whole seconds. It is the time between two looks, too. */
const secondMs = 1_000;

export const command = defineCommand({
  about:
    'Each backend is asked for each file that it should have; what is lost there, or could not be ' +
    'copied, is copied again from another one. The service does it by itself: this command begins ' +
    'it, waits until all of it was looked at, and names what is wrong, with what to do. It does not ' +
    'read every byte: sealpin verify --all does, and sealpin verify --local for the local service.',
  args: {},
  service: true,
  interrupted: 'the service continues by itself: the same command shows what is wrong in the end',
  examples: [{ command: 'sealpin repair', does: 'All that the local service, or that of the profile, has' }],
  async run({ context }) {
    const { output, signal, timeouts } = context;
    const routes = operator(await operatedService(context), context);
    const begun = await routes.repair();
    const bad: SurveyedPin[] = [];
    const so = { pins: 0, copying: 0, waiting: 0 };
    const waitingAt = new Set<string>();
    for (let cursor: string | undefined, idle = 0, before = 0; ;) {
      const { pins, cursor: next } = await routes.pinPage(cursor);
      const seen = pins.map((pin) => ({ pin, state: stateSince(begun, pin) }));
      const waiting = seen.filter(({ state }) => state === 'waiting').length;
      idle = waiting === before ? idle + 1 : 0;
      before = waiting;
      if (waiting > 0 && idle < idlePolls) {
        await sleep(timeouts.pollMs ?? secondMs, signal);
        continue;
      }
      for (const { pin, state } of seen) {
        if (state !== 'new') so.pins += 1;
        if (state === 'waiting' || state === 'copying') so[state] += 1;
        if (state === 'waiting') waitingAt.add(pin.service);
        if (state !== 'bad') continue;
        bad.push(pin);
        if (!output.json) output.warn(troubleOf(pin));
      }
      if (next === undefined) break;
      cursor = next;
    }
    const inOrder = bad.length + so.copying + so.waiting === 0 ? ': no backend lacks its bytes' : '';
    output.note(
      bad.length === 0
        ? `${countText(so.pins - so.waiting, 'pin')} looked at${inOrder}`
        : `in trouble: ${bad.length} of ${countText(so.pins, 'pin')}`,
    );
    if (so.copying > 0) output.note(`bytes are copied for ${countText(so.copying, 'pin')}`);
    if (so.waiting > 0) {
      const at = [...waitingAt].join(', ');
      output.warn(
        `${countText(so.waiting, 'pin')} not looked at yet, at ${at}: does it respond, and is it in BACKENDS?`,
      );
    }
    await output.result({ ...so, bad }, []);
    return bad.length + so.waiting === 0 ? 0 : exitOf({ code: 'pinning_unavailable' });
  },
});

/**
 * State of a pin as it was seen since a time, in ms. `new`: an upload has made it since, or is
 * about to; `waiting`: its backend did not say anything of it.
 */
function stateSince(begun: number, { state, reason, attempts, dueAt = '', checkedAt }: SurveyedPin) {
  if (Date.parse(dueAt) <= begun + secondMs) return 'waiting';
  if (state === 'lost' || state === 'failed') return 'bad';
  const isFailing = attempts > 0 && reason !== 'underreplicated' && (reason !== undefined || state === 'unpinning');
  if (isFailing) return 'waiting';
  if (state === 'wanted' || state === 'copying') return 'copying';
  if (state === 'unpinning') return 'inOrder';
  if (checkedAt === undefined && attempts === 0) return 'new';
  return Date.parse(checkedAt ?? '') >= begun - secondMs ? 'inOrder' : 'waiting';
}
