import { SealpinError } from '../../shared/errors.ts';
import type { StoredFile } from '../../shared/api.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { recall, type Stored } from '../history.ts';
import { sizeText } from '../terminal/progress.ts';
import { api, authorizedService, refuseEmptyPage } from '../remote/client.ts';
import { findService } from '../remote/service-choice.ts';

const pageFiles = 100;
const defaultLimit = '100';

/**
 * One file. `state`: `stored`, the account has it; `gone`, it was stored from here, and the account no longer has it;
 * `unknown`, its service was not asked.
 */
type Row = {
  readonly blobId: string;
  readonly fileId: string;
  readonly name: string | null;
  readonly size: number;
  readonly createdAt: string;
  readonly service: string;
  readonly state: 'stored' | 'gone' | 'unknown';
  /** `encrypted`: by the service, so that it is read by its file ID; `plain`: stored unchanged. */
  readonly mode: 'encrypted' | 'plain';
};

export const command = defineCommand({
  about:
    'Shows the files of the account. File names come from the local history; the service never learns the names ' +
    'of files that were encrypted here. Without a service, only the history is shown.',
  args: {
    limit: { type: 'string', valueHint: 'number', description: `The maximum number of files (${defaultLimit})` },
  },
  service: true,
  examples: [
    { command: 'sealpin list', does: 'Blob ID, time, size and name' },
    { command: "sealpin list --json | jq -r '.files[].blobId'", does: 'In a script' },
  ],
  async run({ args, context }) {
    const limit = Number(args.limit ?? defaultLimit);
    if (!Number.isSafeInteger(limit) || limit < 1) throw new SealpinError('usage', '--limit must be 1 or more');
    const { entries, damagedLines } = await recall(context.dataDir);
    for (const line of damagedLines)
      context.output.warn(`line ${line} of the history cannot be read; it was left unchanged`);
    const deleted = new Set(entries.flatMap((entry) => ('deleted' in entry ? [entry.deleted] : [])));
    const own = entries.filter((entry): entry is Stored => 'cid' in entry && !deleted.has(entry.fileId));
    const account = await accountFiles(limit, context);
    const rows = join(own, account, context);
    const shown = rows.slice(0, limit);
    await context.output.result({ files: shown }, shown.map(rowText));
    if (rows.length === 0) context.output.note('nothing is stored yet');
    if (rows.length > limit || account?.complete === false)
      context.output.note(`there are more: --limit ${limit * 10}`);
  },
});

/** Files of the account at a service. `complete`: whether these are all. */
type AccountFiles = {
  readonly files: readonly StoredFile[];
  readonly service: string;
  readonly complete: boolean;
};

/** The newest files of the account; undefined, with a warning, when there is no service. */
async function accountFiles(limit: number, context: Context): Promise<AccountFiles | undefined> {
  if ((await findService(context)).url === undefined) {
    context.output.warn('no service is configured, and no local service is running: showing the local history only');
    return undefined;
  }
  const service = await authorizedService(context);
  const routes = api(service, context);
  const files: StoredFile[] = [];
  let cursor: string | undefined;
  do {
    const page = await routes.list({ cursor, limit: Math.min(pageFiles, limit - files.length) });
    files.push(...page.files);
    refuseEmptyPage(page);
    cursor = page.cursor;
  } while (cursor !== undefined && files.length < limit);
  return { files, service: service.url.href, complete: cursor === undefined };
}

/** The files of the account and of the history as rows, newest first. */
function join(own: readonly Stored[], account: AccountFiles | undefined, context: Context): Row[] {
  const byFileId = new Map(own.map((entry) => [entry.fileId, entry]));
  const stored =
    account?.files.map((file) => storedRow(file, byFileId.get(file.fileId), account.service, context)) ?? [];
  const storedIds = new Set(stored.map(({ fileId }) => fileId));
  const others = own.flatMap((entry): Row[] => {
    if (storedIds.has(entry.fileId)) return [];
    const wasAsked = entry.service === account?.service;
    // It may be on a page that was not requested.
    if (wasAsked && !account.complete) return [];
    return [
      {
        blobId: entry.cid,
        fileId: entry.fileId,
        name: entry.name ?? null,
        size: entry.bytes,
        createdAt: entry.at,
        service: entry.service,
        state: wasAsked ? 'gone' : 'unknown',
        mode: 'plain',
      },
    ];
  });
  return [...stored, ...others].sort((a, b) => Date.parse(b.createdAt) - Date.parse(a.createdAt));
}

function storedRow(file: StoredFile, entry: Stored | undefined, service: string, context: Context): Row {
  // The name belongs to the blob that was stored from here: a service must not put other bytes behind it.
  if (entry !== undefined && entry.cid !== file.cid)
    context.output.warn(
      `the service reports another blob ID for ${entry.name ?? file.fileId} (${file.cid}) than when it was stored; the list shows the one from the history`,
    );
  return {
    blobId: entry?.cid ?? file.cid,
    fileId: file.fileId,
    name: entry?.name ?? file.filename ?? null,
    size: file.size,
    createdAt: file.createdAt,
    service,
    state: 'stored',
    mode: file.mode,
  };
}

function rowText(row: Row): string {
  const time = row.createdAt.slice(0, 16).replace('T', ' ');
  const state = { stored: '', gone: '  (no longer at the service)', unknown: `  (at ${new URL(row.service).host})` }[
    row.state
  ];
  const how = row.mode === 'encrypted' ? `  (encrypted by the service: sealpin get ${row.fileId})` : '';
  return `${row.blobId}  ${time}  ${sizeText(row.size).padStart(9)}  ${row.name === null ? '-' : row.name}${state}${how}`;
}
