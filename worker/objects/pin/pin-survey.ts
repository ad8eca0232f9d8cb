/** Operator's questions to a `Pin` object: which pins are in which state, and that all of them be checked. */
import type { SurveyState } from '../../../shared/api.ts';
import type { PinRow, PinState } from './pin-rows.ts';

/** A pin with the files that need it; times in ms. */
export type SurveyedPin = {
  cid: string;
  service: string;
  state: PinState;
  reason: string | null;
  detail: string | null;
  attempts: number;
  due: number | null;
  checkedAt: number | null;
  verifiedAt: number | null;
  files: { account: string; fileId: string }[];
};

/** The last pin of the page before. */
export type SurveyCursor = { cid: string; service: string };

/** Number of the files of one CID that are listed. */
const listedFiles = 100;

const isDamaged = `state = 'lost' AND NOT EXISTS (SELECT 1 FROM pin AS other WHERE other.cid = pin.cid AND other.state = 'live')`;

/** Pins in a state, by CID and service. @param state undefined: all */
export function surveyedPins(
  sql: SqlStorage,
  o: { state: SurveyState | undefined; after: SurveyCursor | undefined; limit: number },
): SurveyedPin[] {
  const { state, after = { cid: '', service: '' }, limit } = o;
  const condition =
    state === undefined ? '?3 IS NULL' : state === 'damaged' ? `?3 IS NOT NULL AND ${isDamaged}` : 'state = ?3';
  const rows = sql.exec<PinRow>(
    `SELECT * FROM pin WHERE (cid, service) > (?1, ?2) AND ${condition} ORDER BY cid, service LIMIT ?4`,
    after.cid,
    after.service,
    state ?? null,
    limit,
  );
  return rows.toArray().map((row) => ({
    cid: row.cid,
    service: row.service,
    state: row.state,
    reason: row.reason,
    detail: row.detail,
    attempts: row.attempts,
    due: row.due,
    checkedAt: row.checked_at,
    verifiedAt: row.verified_at,
    files: sql
      .exec<{ account: string; fileId: string }>(
        'SELECT account, file_id AS fileId FROM reference WHERE cid = ? AND is_part = 0 LIMIT ?',
        row.cid,
        listedFiles,
      )
      .toArray(),
  }));
}

/** Counts pins by state. */
export function countedPins(sql: SqlStorage): Partial<Record<SurveyState, number>> {
  const counts: Partial<Record<SurveyState, number>> = {};
  const rows = sql.exec<{ state: PinState; count: number }>('SELECT state, count(*) AS count FROM pin GROUP BY state');
  for (const { state, count } of rows) counts[state] = count;
  counts.damaged = sql.exec<{ count: number }>(`SELECT count(*) AS count FROM pin WHERE ${isDamaged}`).one().count;
  return counts;
}

/** Makes every pin due: services are asked for it, whatever the rows say, and what is lost or failed is tried again. */
export function makeAllDue(sql: SqlStorage, nowMs: number): void {
  sql.exec('UPDATE pin SET due = ?, attempts = 0, losses = 0', nowMs);
}
