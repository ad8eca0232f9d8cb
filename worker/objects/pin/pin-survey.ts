/** Pins as a `Pin` object shows them: of a CID to its readers, all of them to the operator. */
import type { SurveyState } from '../../../shared/api.ts';
import { all, count } from '../sql.ts';
import { nothingToRead, type PinRow, type PinState } from './pin-rows.ts';
import type { WaitingStrays } from './stores/object-rows.ts';

/** State of a CID at one service; times in ms. `reason`: what is wrong with it, as its row says. */
export type BackendPin = Pick<PinRow, 'service' | 'state' | 'reason'> & SeenAt;

/** Times of a row, in ms, by the names that callers have for them. */
type SeenAt = { checkedAt: number | null; verifiedAt: number | null };

/** The services that may have blocks of a CID, in the order in which they are asked. */
export function byReadPriority(rows: readonly PinRow[]): string[] {
  const rank = ({ state, suspect }: PinRow): number => (state === 'live' ? 0 : 2) + suspect;
  const held = rows.filter(({ state }) => state === 'live' || state === 'lost');
  return held.toSorted((a, b) => rank(a) - rank(b)).map(({ service }) => service);
}

/** Makes a pin of its row. */
export function backendPin({ service, state, reason, ...row }: PinRow): BackendPin {
  return { service, state, reason, checkedAt: row.checked_at, verifiedAt: row.verified_at };
}

/** A pin with the files that need it; times in ms. */
export type SurveyedPin = SurveyedRow & { files: { account: string; fileId: string }[] };

type SurveyedRow = Pick<PinRow, 'cid' | 'service' | 'state' | 'reason' | 'detail' | 'attempts' | 'due'> & SeenAt;

/** A page of pins. `state`: undefined: all; `after`: the last pin of the page before. */
export type SurveyPage = { state: SurveyState | undefined; after: PinKey | undefined; limit: number };
type PinKey = Pick<PinRow, 'cid' | 'service'>;

/** Number of pins at a service in a state. */
type PinCount = { service: string; state: PinState; count: number };

/** Numbers of an object for the metrics. `lateMs`: how long its alarm should have rung already. */
export type PinGauges = { pins: PinCount[]; strays: WaitingStrays[]; lateMs: number };

/** Number of the files of one CID that are listed. */
const listedFiles = 100;

const isDamaged = `state = 'lost' AND NOT EXISTS (SELECT 1 FROM pin AS other WHERE other.cid = pin.cid
  AND other.state = 'live')`;

/** Pins in a state, by CID and service. */
export function surveyedPins(sql: SqlStorage, page: SurveyPage): SurveyedPin[] {
  const { state, after = { cid: '', service: '' }, limit } = page;
  const condition =
    state === undefined ? '?3 IS NULL' : state === 'damaged' ? `?3 IS NOT NULL AND ${isDamaged}` : 'state = ?3';
  const query = `SELECT cid, service, state, reason, detail, attempts, due, checked_at AS checkedAt,
      verified_at AS verifiedAt
    FROM pin WHERE (cid, service) > (?1, ?2) AND ${condition} ORDER BY cid, service LIMIT ?4`;
  const rows = all<SurveyedRow>(sql, query, after.cid, after.service, state ?? null, limit);
  const references = 'SELECT account, file_id AS fileId FROM reference WHERE cid = ? AND is_part = 0 LIMIT ?';
  return rows.map((row) => ({ ...row, files: all(sql, references, row.cid, listedFiles) }));
}

/** Counts pins by service and state. */
export function pinCounts(sql: SqlStorage): PinCount[] {
  return all(sql, 'SELECT service, state, count(*) AS count FROM pin GROUP BY service, state');
}

/** Counts pins by state. */
export function countedPins(sql: SqlStorage): Partial<Record<SurveyState, number>> {
  const counts: Partial<Record<SurveyState, number>> = {};
  for (const { state, count: pins } of pinCounts(sql)) counts[state] = (counts[state] ?? 0) + pins;
  counts.damaged = count(sql, `pin WHERE ${isDamaged}`);
  return counts;
}

/**
 * Makes every pin due: services are asked for it, whatever the rows say, and what is lost or failed
 * is tried again. Of what is only to be asked for, the row then says when it was.
 */
export function makeAllDue(sql: SqlStorage, nowMs: number): void {
  const from = `CASE WHEN read_to = ${nothingToRead.read_to} THEN NULL ELSE read_from END`;
  sql.exec(`UPDATE pin SET due = ?, attempts = 0, losses = 0, read_from = ${from}`, nowMs);
}
