import { SealpinError } from '../../shared/errors.ts';
import type { StoredFile } from '../../shared/api.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { recall, type Stored } from '../history.ts';
import { visible } from '../output.ts';
import { sizeText } from '../progress.ts';
import { api, authorizedService, findService } from '../service.ts';

const pageFiles = 100;
const defaultLimit = '100';

/** `stored`: the account has it. `gone`: it was stored from here, and the account has it no more. `unknown`: its service was not asked. */
type Row = {
  readonly blobId: string;
  readonly fileId: string;
  readonly name: string | null;
  readonly size: number;
  readonly createdAt: string;
  readonly service: string;
  readonly state: 'stored' | 'gone' | 'unknown';
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
    if (!Number.isSafeInteger(limit) || limit < 1) throw new SealpinError('usage', '--limit is not a number from 1');
    const { entries, damagedLines } = await recall(context.dataDir);
    for (const line of damagedLines)
      context.output.warn(`line ${line} of the history cannot be read; it was left as it is`);
    const deleted = new Set(entries.flatMap((entry) => ('deleted' in entry ? [entry.deleted] : [])));
    const own = entries.filter((entry): entry is Stored => 'cid' in entry && !deleted.has(entry.fileId));
    const { files, service, complete } = await accountFiles(limit, context);
    const rows = join(own, files, service, complete);
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
    context.output.warn(
      'no service is running here and none is configured: this is what was stored from here, as far as the history knows',
    );
    return { files: [], service: undefined, complete: true };
  }
  const service = await authorizedService(context);
  const routes = api(service, context);
  const files: StoredFile[] = [];
  let cursor: string | undefined;
  do {
    const page = await routes.list({ cursor, limit: Math.min(pageFiles, limit - files.length) });
    files.push(...page.files);
    if (page.cursor !== undefined && page.cursor === cursor)
      throw new SealpinError('service_answer', 'the service gives the same page again and again');
    cursor = page.cursor;
  } while (cursor !== undefined && files.length < limit);
  return { files, service: service.url.href, complete: cursor === undefined };
}

function join(
  own: readonly Stored[],
  files: readonly StoredFile[],
  service: string | undefined,
  complete: boolean,
): Row[] {
  const names = new Map(own.map((entry) => [entry.fileId, entry.name]));
  const held = new Set(files.map(({ fileId }) => fileId));
  const rows: Row[] = files.map((file) => ({
    blobId: file.cid,
    fileId: file.fileId,
    name: names.get(file.fileId) ?? file.filename ?? null,
    size: file.size,
    createdAt: file.createdAt,
    service: service!,
    state: 'stored',
  }));
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
    });
  }
  return rows.sort((a, b) => Date.parse(b.createdAt) - Date.parse(a.createdAt));
}

function rowText(row: Row): string {
  const time = row.createdAt.slice(0, 16).replace('T', ' ');
  const state = { stored: '', gone: '  (gone from the service)', unknown: `  (at ${new URL(row.service).host})` }[
    row.state
  ];
  return `${row.blobId}  ${time}  ${sizeText(row.size).padStart(9)}  ${row.name === null ? '-' : visible(row.name)}${state}`;
}
