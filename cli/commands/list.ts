import { SealpinError } from '../../shared/errors.ts';
import { foldedName } from '../../shared/filename.ts';
import type { StoredFile } from '../../shared/api.ts';
import { defineCommand, toggle, valueFlag } from '../command.ts';
import type { Context } from '../context.ts';
import { atLeastOne } from '../flags/args.ts';
import { recall, type StoredEntry, notDeleted } from '../files/history.ts';
import { openDetails } from '../files/sealed-names.ts';
import { longLines, plainLines, type StoredRow, terminalLines } from '../terminal/stored-rows.ts';
import { factLines } from '../terminal/fitted-row.ts';
import { columnsOf } from '../terminal/streams.ts';
import { api, authorizedService } from '../remote/client.ts';
import { firstItems } from '../remote/pages.ts';
import { findService } from '../remote/service-choice.ts';

const defaultLimit = '100';

export const command = defineCommand({
  about:
    'Shows the files of the account. File names come from the local history, or are sealed to your public.key at the ' +
    'service, which never learns the names of files that were encrypted here. Without a service, only the history is ' +
    'shown. At a terminal the times are local; other programs get one line for each file, with times in UTC.',
  args: {
    name: valueFlag('text', 'Only files with this in their names, in any case'),
    mode: valueFlag('mode', 'Only what the service encrypted (encrypted), or what it stores unchanged (plain)'),
    long: toggle('Everything that is known of each file'),
    limit: valueFlag('number', `The maximum number of files (${defaultLimit})`),
  },
  service: true,
  examples: [
    { command: 'sealpin list', does: 'Blob ID, time, size and name' },
    { command: 'sealpin list --name invoice --long', does: 'All about the files of that name' },
    { command: "sealpin list --json | jq -r '.files[].blobId'", does: 'In a script' },
  ],
  async run({ args, context }) {
    const limit = atLeastOne(Number(args.limit ?? defaultLimit), '--limit');
    const { mode } = args;
    if (mode !== undefined && mode !== 'encrypted' && mode !== 'plain')
      throw new SealpinError('usage', '--mode must be encrypted or plain');
    const { output, stdout } = context;
    const { entries, damagedLines } = await recall(context.dataDir);
    for (const line of damagedLines) output.warn(`line ${line} of the history cannot be read; it was left unchanged`);
    // The service does not know the names, so all files are asked for.
    const account = await accountFiles({ limit: args.name === undefined ? limit : Infinity, mode }, context);
    const own = notDeleted(entries);
    const known = new Set(own.flatMap(({ fileId, name }) => (name === undefined ? [] : [fileId])));
    const opened = await openDetails(account?.files.filter(({ fileId }) => !known.has(fileId)) ?? [], context);
    const all = join(own, account, opened, context);
    const rows = all.filter((row) => isWanted(row, args.name, mode));
    const shown = rows.slice(0, limit);
    const short = stdout.isTTY === true ? terminalLines(shown, columnsOf(stdout)) : plainLines(shown);
    const long = longLines(shown).flatMap((line) =>
      line.startsWith('  ') ? factLines(line.slice(0, 11), line.slice(11), context) : [line],
    );
    await output.result({ files: shown }, args.long ? long : short);
    if (rows.length === 0) output.note(all.length === 0 ? 'nothing is stored yet' : 'no file matches');
    if (rows.length > limit || account?.complete === false) output.note(`there are more: --limit ${limit * 10}`);
  },
});

function isWanted(row: StoredRow, name: string | undefined, mode: StoredRow['mode'] | undefined): boolean {
  const isNamed = name === undefined || foldedName(row.name ?? '').includes(foldedName(name));
  return isNamed && (mode === undefined || row.mode === mode);
}

/** Files of the account at a service. `complete`: whether these are all. */
type ListedFiles = { readonly files: readonly StoredFile[]; readonly service: string; readonly complete: boolean };

/** The newest files of the account; undefined, with a warning, when there is no service. */
async function accountFiles(
  { limit, mode }: { readonly limit: number; readonly mode: StoredRow['mode'] | undefined },
  context: Context,
): Promise<ListedFiles | undefined> {
  if ((await findService(context)).url === undefined) {
    context.output.warn('no service is configured, and no local service is running: showing the local history only');
    return undefined;
  }
  const service = await authorizedService(context);
  const routes = api(service, context);
  const { items, isComplete } = await firstItems(limit, 'files', (page) => routes.list({ ...page, mode }));
  return { files: items, service: service.url.href, complete: isComplete };
}

/** The files of the account and of the history as rows, newest first. */
function join(
  own: readonly StoredEntry[],
  account: ListedFiles | undefined,
  { details, foreign }: Awaited<ReturnType<typeof openDetails>>,
  context: Context,
): StoredRow[] {
  const byFileId = new Map(own.map((entry) => [entry.fileId, entry]));
  const stored =
    account?.files.map((file) => {
      const row = storedRow(file, byFileId.get(file.fileId), account.service, context);
      const named = { ...row, name: row.name ?? details.get(file.fileId)?.name ?? null };
      return foreign.has(file.fileId) ? { ...named, foreign: true as const } : named;
    }) ?? [];
  const storedIds = new Set(stored.map(({ fileId }) => fileId));
  const others = own.flatMap((entry): StoredRow[] => {
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

function storedRow(file: StoredFile, entry: StoredEntry | undefined, service: string, context: Context): StoredRow {
  // The name belongs to the blob that was stored from here: a service must not put other bytes
  // behind it.
  if (entry !== undefined && entry.cid !== file.cid)
    context.output.warn(
      `the service reports another blob ID for ${entry.name ?? file.fileId} (${file.cid}) than when it was ` +
        'stored; the list shows the one from the history',
    );
  return {
    blobId: entry?.cid ?? file.cid,
    fileId: file.fileId,
    name: entry?.name ?? file.filename ?? null,
    size: file.size,
    createdAt: file.createdAt,
    expiresAt: file.expiresAt,
    service,
    state: 'stored',
    mode: file.mode,
  };
}
