/** The lines of `sealpin list`: for a terminal, for other programs, or with everything. */
import { fittedRow, isNarrow, localTime } from './fitted-row.ts';
import { sizeText } from './size.ts';

/**
 * One file. `state`: `stored`, the account has it; `gone`, it was stored from here, and the account
 * no longer has it; `unknown`, its service was not asked. `mode`: `encrypted` by the service, so
 * that it is read by its file ID; `plain`: stored unchanged. `foreign`: the name that the service
 * keeps beside it belongs to another file.
 */
export type StoredRow = {
  readonly blobId: string;
  readonly fileId: string;
  readonly name: string | null;
  readonly size: number;
  readonly createdAt: string;
  /** When the file is deleted. */
  readonly expiresAt?: string | undefined;
  readonly service: string;
  readonly state: 'stored' | 'gone' | 'unknown';
  readonly mode: 'encrypted' | 'plain';
  readonly foreign?: true;
};

/** For other programs, in a form that never changes: blob ID, time (UTC), size, state, name. */
export function plainLines(rows: readonly StoredRow[]): string[] {
  return rows.map((row) => {
    const time = row.createdAt.slice(0, 16).replace('T', ' ');
    const state = row.state === 'stored' ? row.mode : row.state;
    return [row.blobId, time, sizeText(row.size).padStart(9), state.padEnd(9), nameOrDash(row)].join('  ');
  });
}

/**
 * For a person: time (of this machine's zone), size and name in one line, the blob ID below it, so
 * that both can be read and copied.
 * @param columns of the terminal; longer names are cut
 */
export function terminalLines(rows: readonly StoredRow[], columns: number): string[] {
  if (rows.length === 0) return [];
  const header = isNarrow(columns)
    ? []
    : [`${'stored'.padEnd(16)}  ${'size'.padStart(9)}  name, and below it the blob ID`];
  const lines = rows.flatMap((row) => {
    const about = `${localTime(row.createdAt)}  ${sizeText(row.size).padStart(9)}`;
    const name = `${nameOrDash(row)}${remarkOf(row)}`;
    const how = row.mode === 'encrypted' ? [`sealpin decrypt ${row.fileId}`] : [];
    return fittedRow({ about, name, below: [row.blobId, ...how] }, columns);
  });
  return [...header, ...lines];
}

/** Everything that is known of each file, a line for each fact. */
export function longLines(rows: readonly StoredRow[]): string[] {
  return rows.flatMap((row) => [
    `${nameOrDash(row)}${remarkOf(row)}`,
    `  blob ID  ${row.blobId}`,
    `  file ID  ${row.fileId}`,
    `  stored   ${localTime(row.createdAt)}`,
    ...(row.expiresAt === undefined ? [] : [`  expires  ${localTime(row.expiresAt)}`]),
    `  size     ${sizeText(row.size)}${row.size < 1024 ? '' : ` (${row.size} B)`}`,
    '  mode     ' +
      (row.mode === 'encrypted'
        ? `encrypted (by the service: sealpin decrypt ${row.fileId})`
        : 'plain (stored as it was sent)'),
    `  service  ${row.service}`,
  ]);
}

function nameOrDash({ name }: StoredRow): string {
  return name ?? '-';
}

function remarkOf({ state, service }: StoredRow): string {
  return { stored: '', gone: '  (no longer at the service)', unknown: `  (at ${new URL(service).host})` }[state];
}
