/** Daily usage of each API key, as rows. */
import { usageDays } from '../../../../shared/api.ts';
import { dayMs } from '../../../../shared/time.ts';
import { StorageRows } from '../../storage-rows.ts';
import { all, least } from '../../sql.ts';

/** The API key that a request counts for: the IDs of its account and of the key. */
export type UsedBy = { account: string; keyId: string };

/** Usage of requests: their number, and the bytes of their bodies and of their responses. */
export type Used = { requests: number; bytesIn: number; bytesOut: number };

/** Usage of a key on a day of UTC, which is named as in ISO 8601. */
type UsedByKey = Used & { day: string; key: string };

/** `next` is the cursor of the next page, if there is one. */
export type UsagePage = { usage: UsedByKey[]; next: number | undefined };

/** Number of rows that one alarm removes, so that it stays short. */
const maxCounted = 10_000;

/** The use in an object's storage. Days are counted since 1970. */
export class KeyUsage extends StorageRows<{ now(): number }> {
  /** Adds to what keys have used today. An ID that no key of the account has had adds nothing. */
  add(used: ReadonlyMap<string, Used>): void {
    const counted = `INSERT INTO key_usage (day, api_key, requests, bytes_in, bytes_out)
      SELECT ?1, id, ?3, ?4, ?5 FROM api_key WHERE id = ?2
      ON CONFLICT (day, api_key) DO UPDATE SET requests = requests + ?3, bytes_in = bytes_in + ?4,
        bytes_out = bytes_out + ?5`;
    for (const [key, { requests, bytesIn, bytesOut }] of used)
      this.sql.exec(counted, this.#today(), key, requests, bytesIn, bytesOut);
  }

  /** Days of keys before the cursor `before`, the newest first. */
  page({ before = Number.MAX_SAFE_INTEGER, limit }: { before: number | undefined; limit: number }): UsagePage {
    const query = `SELECT seq, date(day * 86400, 'unixepoch') AS day, api_key AS key, requests, bytes_in AS bytesIn,
      bytes_out AS bytesOut FROM key_usage WHERE seq < ? AND day >= ? ORDER BY seq DESC LIMIT ?`;
    const rows = all<UsedByKey & { seq: number }>(this.sql, query, before, this.#oldest(), limit + 1);
    const page = rows.slice(0, limit);
    const usage = page.map(({ day, key, requests, bytesIn, bytesOut }) => ({ day, key, requests, bytesIn, bytesOut }));
    return { usage, next: rows.length > limit ? page.at(-1)?.seq : undefined };
  }

  /** Forgets what is no longer kept. */
  prune(): void {
    const old = 'SELECT seq FROM key_usage WHERE day < ? ORDER BY seq LIMIT ?';
    this.sql.exec(`DELETE FROM key_usage WHERE seq IN (${old})`, this.#oldest(), maxCounted);
  }

  /** Returns the time at which the alarm must forget the next day, in ms. */
  nextDue(): number | undefined {
    const day = least(this.sql, 'day', 'key_usage');
    return day === undefined ? undefined : (day + usageDays + 1) * dayMs;
  }

  #today(): number {
    return Math.floor(this.context.now() / dayMs);
  }

  #oldest(): number {
    return this.#today() - usageDays;
  }
}
