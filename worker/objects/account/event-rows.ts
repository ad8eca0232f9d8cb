/** Events of an account, in the order in which they were recorded. They are also its audit log. */
import { eventDays, type Scope } from '../../../shared/api.ts';
import { dayMs } from '../../../shared/time.ts';
import { recordsOf, rowOf, type RecordOf } from '../columns.ts';
import type { Opening } from '../share/openings.ts';
import { err, type Failure, type Result } from '../result.ts';
import { StorageRows } from '../storage-rows.ts';
import { exists, first, greatest, insert, least, list } from '../sql.ts';
import { eventColumns, eventKind } from './tables.ts';

/** Least time for which an event is kept, in ms. */
export const eventRetentionMs = eventDays * dayMs;
/** Interval at which the alarm looks for older ones, in ms. */
const pruneMs = dayMs;
/** Number of events that one alarm removes, so that it stays short. */
const maxRemoved = 10_000;
/** What `event_removed` calls all events together, and those of which it has only the numbers. */
const everything = '*';
const ofAnyKind = '';

/**
 * A key and those that it descends from, for events: an invitation counts for itself alone, so that
 * no guest uses up what others may add.
 */
const maker = `WITH RECURSIVE line(id) AS (SELECT ?1 UNION SELECT created_by FROM api_key
  JOIN line ON api_key.id = line.id WHERE created_by IS NOT NULL AND scopes <> 'send')`;

/**
 * The most events that a key with limits adds on a day of UTC. A guest who stores 200 files, shares
 * them at once and changes that link 10 times adds about 2,400.
 */
const maxAdded = 5000;

/** An event; `number` counts the events of the account, `time` is in ms. */
export type EventRecord = RecordOf<typeof eventColumns>;

/**
 * `by`: the ID of the API key that did it. `subject`: of what it happened to; '' for the account.
 */
export type NewEvent = Pick<EventRecord, 'action' | 'by' | 'subject'>;

/** `next`: where the next page begins; undefined before any event. `more`: there is one already. */
export type EventPage = { events: EventRecord[]; next: number | undefined; more: boolean };

/** The key that reads. */
type Reader = { id: string; scopes: readonly Scope[] };

/**
 * The kinds of events that a key with a scope sees, besides what it did itself: those of what it
 * can list, and with `keys` also what keys did to files. The ID of a share opens it, so nobody else
 * sees that.
 */
const visibleKinds: Readonly<Record<Scope, readonly string[]>> = {
  read: ['file'],
  write: [],
  delete: [],
  keys: ['account', 'file', 'key'],
  share: ['share'],
  send: [],
};

/**
 * The scopes of which one is enough to read events: for other keys their numbers, which count all
 * that happens in the account, are not.
 */
export const watching = ['read', 'share', 'keys'] as const satisfies readonly Scope[];

/**
 * Numbers never come back (AUTOINCREMENT), and one object writes them in its own order: so a cursor
 * skips and repeats nothing.
 */
export class EventRows extends StorageRows<{ now(): number }> {
  /** Records what happens, in the transaction of the caller's that makes it happen. */
  add(event: NewEvent): void {
    this.#insert({ time: this.context.now(), ...event });
  }

  /**
   * Refuses a key with limits that has added as many events as it may today. What only ends
   * something asks for nothing: there is no more of that than was made.
   * @returns `rate_limited`
   */
  refusal(by: string): Failure | undefined {
    const now = this.context.now();
    const full = 'key_limit WHERE key_id IN (SELECT id FROM line) AND added_on = ?2 AND added >= ?3';
    const query = `${maker} SELECT 1 FROM ${full}`;
    if (first(this.sql, query, by, Math.floor(now / dayMs), maxAdded) === undefined) return undefined;
    const detail = 'the API key, or one that it comes from, has changed as much today as a key with limits may';
    return err('rate_limited', detail, Math.ceil((dayMs - (now % dayMs)) / 1000));
  }

  /**
   * Records openings and changes that a share reports, each once. What is older than what is kept
   * may have been recorded before.
   */
  reportOpenings(share: string, openings: readonly Opening[]): void {
    for (const { number, time, change } of openings) {
      const source = `${share} ${number}`;
      const isKnown = exists(this.sql, 'event WHERE source = ?', source);
      if (isKnown || time <= this.context.now() - eventRetentionMs) continue;
      const action = change === undefined ? 'share.opened' : 'share.changed';
      this.#insert({ time, action, by: change?.by ?? null, subject: share, source });
    }
  }

  #insert(event: NewEvent & Pick<EventRecord, 'time'> & { source?: string }): void {
    insert(this.sql, 'event', rowOf(eventColumns, event));
    if (event.by === null) return;
    const counted = `${maker} UPDATE key_limit SET added = iif(added_on = ?2, added, 0) + 1, added_on = ?2
      WHERE key_id IN (SELECT id FROM line)`;
    this.sql.exec(counted, event.by, Math.floor(this.context.now() / dayMs));
  }

  /**
   * The events after a position, oldest first, that a key may see. Nothing tells it of others: its
   * position passes none, and is good until an event after it is removed that the key might see.
   * @returns `gone` where one was, `invalid_request` for a position that no event has had
   */
  page(key: Reader, { after, limit }: { after: number | undefined; limit: number }): Result<EventPage> {
    const kinds = [...new Set(key.scopes.flatMap((scope) => visibleKinds[scope]))];
    const removed = this.#removed(key.id, ...kinds);
    const from = after ?? removed;
    if (from > this.last()) return err('invalid_request', 'after is not an ID of this account’s events');
    if (from < removed) return err('gone', 'events after this one are no longer kept: leave after out to begin again');
    const found = new Map<number, EventRecord>();
    for (const [column, value] of [['api_key', key.id], ...kinds.map((kind) => [eventKind, kind])]) {
      const query = `SELECT * FROM event WHERE ${column} = ? AND seq > ? ORDER BY seq LIMIT ?`;
      for (const event of recordsOf(this.sql, eventColumns, query, value ?? '', from, limit + 1))
        found.set(event.number, event);
    }
    const ordered = [...found.values()].toSorted((a, b) => a.number - b.number);
    const events = ordered.slice(0, limit);
    return { ok: true, events, next: (events.at(-1)?.number ?? from) || undefined, more: ordered.length > limit };
  }

  /**
   * The number of the last event that was removed and is, or may be, of one of these keys or kinds;
   * 0 for none. Where `event_removed` does not know of all that were, as an older version removed
   * some, each may be.
   */
  #removed(...of: string[]): number {
    const rows = 'event_removed WHERE of IN (SELECT value FROM json_each(?))';
    const last = (...names: string[]): number => greatest(this.sql, 'seq', rows, JSON.stringify(names)) ?? 0;
    const before = (least(this.sql, 'seq', 'event') ?? this.last() + 1) - 1;
    return last(everything) === before ? last(ofAnyKind, ...of) : before;
  }

  /** Makes the next event have a number above a given one, where none is kept that does. */
  numberFrom(last: number): void {
    if (last <= this.last()) return;
    insert(this.sql, 'event', { seq: last, time: 0, action: '', subject: '' });
    this.sql.exec('DELETE FROM event WHERE seq = ?', last);
  }

  /** Removes the oldest events up to the first that is kept, in a transaction of the caller's. */
  prune(): void {
    const oldest = `(SELECT seq FROM event WHERE seq < coalesce(
      (SELECT seq FROM event WHERE time > ?1 ORDER BY seq LIMIT 1), ?2) ORDER BY seq LIMIT ?3)`;
    const since = this.context.now() - eventRetentionMs;
    const upTo = greatest(this.sql, 'seq', oldest, since, Number.MAX_SAFE_INTEGER, maxRemoved);
    if (upTo === undefined) return;
    const into = 'INSERT OR REPLACE INTO event_removed';
    this.sql.exec(`${into} VALUES (?, ?)`, ofAnyKind, this.#removed());
    for (const of of [eventKind, 'api_key', `'${everything}'`])
      this.sql.exec(`${into} SELECT ${of}, max(seq) FROM event WHERE seq <= ? AND ${of} IS NOT NULL GROUP BY 1`, upTo);
    this.sql.exec('DELETE FROM event WHERE seq <= ?', upTo);
  }

  /** Returns the time at which the alarm must remove the next event, in ms. */
  nextDue(): number | undefined {
    const [time] = list<number>(this.sql, 'SELECT time FROM event ORDER BY seq LIMIT 1');
    return time === undefined ? undefined : time + eventRetentionMs + pruneMs;
  }

  /** The number of the last event, also of one that is no longer kept. */
  last(): number {
    return list<number>(this.sql, `SELECT seq FROM sqlite_sequence WHERE name = 'event'`)[0] ?? 0;
  }
}
