import { SealpinError } from '../../shared/errors.ts';
import type { StoredFile } from '../../shared/api.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { recall, type Stored } from '../history.ts';
import { sizeText } from '../terminal/progress.ts';
import { api, authorizedService, findService, refuseEmptyPage } from '../remote/client.ts';

const pageFiles = 100;
const defaultLimit = '100';

/**
 * `stored`: the account has it. `gone`: it was stored from here, and the account does not have it any more. `unknown`: its
 * service was not asked.
 */
type Row = {
  readonly blobId: string;
  readonly fileId: string;
  readonly name: string | null;
  readonly size: number;
  readonly createdAt: string;
  readonly service: string;
  readonly state: 'stored' | 'gone' | 'unknown';
  /** `encrypted`: by the service, so that it is read by its file ID; `plain`: stored as it came. */
  readonly mode: 'encrypted' | 'plain';
};

export const command = defineCommand({
  name: 'list',
  summary: 'List what is stored, newest first',
  about:
    'The files of the account, joined with the history of this data directory, which alone knows the names of files that were encrypted here. Without a service, the history alone.',
  args: {
    limit: { type: 'string', valueHint: 'number', description: `How many at most (${defaultLimit})` },
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
      context.output.warn(`line ${line} of the history cannot be read; it was left as it is`);
    const deleted = new Set(entries.flatMap((entry) => ('deleted' in entry ? [entry.deleted] : [])));
    const own = entries.filter((entry): entry is Stored => 'cid' in entry && !deleted.has(entry.fileId));
    const { files, service, complete } = await accountFiles(limit, context);
    const rows = join(own, files, service, complete, context);
    const shown = rows.slice(0, limit);
    await context.output.result({ files: shown }, shown.map(rowText));
    if (rows.length === 0) context.output.note('nothing is stored yet');
    if (rows.length > limit || !complete) context.output.note(`there are more: --limit ${limit * 10}`);
  },
});

/** The newest files of the account; none, with a word about it, when there is no service. */
async function accountFiles(
  limit: number,
  context: Context,
): Promise<{ files: StoredFile[]; service: string | undefined; complete: boolean }> {
  if ((await findService(context)).url === undefined) {
    context.output.warn('no service is configured, and no local service is running: showing the local history only');
    return { files: [], service: undefined, complete: true };
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

function join(
  own: readonly Stored[],
  files: readonly StoredFile[],
  service: string | undefined,
  complete: boolean,
  context: Context,
): Row[] {
  const known = new Map(own.map((entry) => [entry.fileId, entry]));
  const held = new Set(files.map(({ fileId }) => fileId));
  const rows: Row[] = files.map((file) => {
    const entry = known.get(file.fileId);
    // The name belongs to the blob that was stored from here: a service must not put other bytes behind it.
    if (entry !== undefined && entry.cid !== file.cid)
      context.output.warn(
        `the service gives ${entry.name ?? file.fileId} another blob ID (${file.cid}) than it had when it was stored; the list shows the one from the history`,
      );
    return {
      blobId: entry?.cid ?? file.cid,
      fileId: file.fileId,
      name: entry?.name ?? file.filename ?? null,
      size: file.size,
      createdAt: file.createdAt,
      service: service!,
      state: 'stored',
      mode: file.mode,
    };
  });
  for (const entry of own) {
    if (held.has(entry.fileId)) continue;
    const asked = entry.service === service;
    // It may stand on a page that was not asked for.
    if (asked && !complete) continue;
    rows.push({
      blobId: entry.cid,
      fileId: entry.fileId,
      name: entry.name ?? null,
      size: entry.bytes,
      createdAt: entry.at,
      service: entry.service,
      state: asked ? 'gone' : 'unknown',
      mode: 'plain',
    });
  }
  return rows.sort((a, b) => Date.parse(b.createdAt) - Date.parse(a.createdAt));
}

function rowText(row: Row): string {
  const time = row.createdAt.slice(0, 16).replace('T', ' ');
  const state = { stored: '', gone: '  (gone from the service)', unknown: `  (at ${new URL(row.service).host})` }[
    row.state
  ];
  const how = row.mode === 'encrypted' ? `  (encrypted by the service: GET /v1/storage/${row.fileId})` : '';
  return `${row.blobId}  ${time}  ${sizeText(row.size).padStart(9)}  ${row.name === null ? '-' : row.name}${state}${how}`;
}
