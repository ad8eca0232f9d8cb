/**
 * Openings of shares that were begun here, until all files are written: the same link continues one
 * and counts nothing more. What is kept opens nothing without the link: the token that repeats the
 * opening at the service for some minutes (`repeatMs`), and the record, sealed as it came. Where a
 * file was written is kept when another one was not.
 */
import * as v from 'valibot';
import type { Opening } from '../../client/receiving.ts';
import type { Link } from '../../shared/link/index.ts';
import { dayMs, repeatMs } from '../../shared/time.ts';
import type { Context } from '../context.ts';
import { changeKept, type Kept, readKept } from '../io/kept-json.ts';

/** As long as a broken download is kept. What is older is removed when any share is opened. */
const maxAgeMs = 7 * dayMs;
/** Records of this number fit into the file. */
const maxKept = 100;

const Begun = v.strictObject({
  service: v.string(),
  id: v.string(),
  token: v.string(),
  record: v.optional(v.string()),
  at: v.number(),
  written: v.optional(v.array(v.strictObject({ index: v.number(), path: v.string() }))),
});
type Begun = v.InferOutput<typeof Begun>;
const shape = v.strictObject({ v: v.literal(1), openings: v.array(Begun) });
const kept: Kept<typeof shape> = { name: 'openings', shape, none: { v: 1, openings: [] } };

/** Which share a link is of. */
export type ShareLink = Pick<Extract<Link, { kind: 'share' }>, 'service' | 'id'>;

/** Begins to open a share, or continues what an earlier run of the same link began. */
export async function beginOpening(link: ShareLink, context: Context): Promise<Opening> {
  const openings = await keptOpenings(context);
  const young = openings.filter((each) => isYoung(each, context));
  // Where forgetting the others fails, the next opening tries again.
  if (young.length < openings.length)
    await change(context, (all) => all.filter((each) => isYoung(each, context))).catch(() => undefined);
  const before = young.find((each) => isOf(link, each));
  const { service, id } = link;
  return {
    isContinued: before !== undefined,
    async record(ask) {
      // What the service repeats may be right where what it gave before was not. After the clock
      // was set back, nobody knows whether it still does.
      const age = before === undefined ? 0 : context.now() - before.at;
      if (before?.record !== undefined && (age < 0 || age >= repeatMs)) return Buffer.from(before.record, 'base64');
      const begun = before ?? { service, id, token: crypto.randomUUID(), at: context.now() };
      await keep(link, begun, context);
      const record = await ask(begun.token);
      await keep(link, { ...begun, record: Buffer.from(record).toString('base64') }, context);
      return record;
    },
  };
}

/** Files of an opening that were written: each one's index in the parcel, and its path. */
export type WrittenBefore = NonNullable<Begun['written']>;

/** Finds the files that earlier runs of the same link have written. */
export async function writtenBefore(link: ShareLink, context: Context): Promise<WrittenBefore> {
  return (await begunOf(link, context))?.written ?? [];
}

/** Keeps which files are written, for the run that continues. */
export async function keepWritten(link: ShareLink, written: WrittenBefore, context: Context): Promise<void> {
  const begun = await begunOf(link, context);
  if (begun !== undefined) await keep(link, { ...begun, written }, context);
}

async function begunOf(link: ShareLink, context: Context): Promise<Begun | undefined> {
  return (await keptOpenings(context)).find((each) => isOf(link, each));
}

/** Forgets an opening: all of its files are written. */
export const endOpening = (link: ShareLink, context: Context): Promise<void> => keep(link, undefined, context);

/**
 * Replaces what is kept of a share. Where nothing can be kept, an opening that breaks off is lost,
 * which is a warning before the share is opened, and no reason not to open it.
 */
async function keep(link: ShareLink, begun: Begun | undefined, context: Context): Promise<void> {
  const others = (all: Begun[]) => all.filter((each) => !isOf(link, each));
  const changed = change(context, (all) => [...others(all), ...(begun === undefined ? [] : [begun])].slice(-maxKept));
  await changed.catch((error: unknown) => {
    context.signal.throwIfAborted();
    if (begun === undefined || begun.record !== undefined) return;
    const why = error instanceof Error ? error.message : '';
    context.output.warn(`if this breaks off, it cannot be continued with the same opening: ${why}`);
  });
}

async function keptOpenings(context: Context): Promise<readonly Begun[]> {
  return (await readKept(kept, context).catch(() => kept.none)).openings;
}

function change(context: Context, changed: (openings: Begun[]) => Begun[]): Promise<void> {
  return changeKept(kept, context, ({ openings }) => ({ v: 1 as const, openings: changed(openings) }));
}

const isOf = (link: ShareLink, { service, id }: ShareLink): boolean => link.service === service && link.id === id;
const isYoung = ({ at }: Begun, { now }: Context): boolean => now() - at < maxAgeMs;
