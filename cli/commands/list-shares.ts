import { sharesPage } from '../../client/sharing.ts';
import type { Share } from '../../shared/api.ts';
import { defineCommand, valueFlag } from '../command.ts';
import type { Context } from '../context.ts';
import { atLeastOne } from '../flags/args.ts';
import { authorizedService, sdkHttp } from '../remote/client.ts';
import { firstItems } from '../remote/pages.ts';
import { rowLines } from '../terminal/fitted-row.ts';
import { countText } from '../terminal/size.ts';
import { namesInHistory } from '../files/history.ts';

const defaultLimit = '100';
const states = { active: 'active', used_up: 'used up', expired: 'expired', revoked: 'revoked' } as const;

export const command = defineCommand({
  about:
    'For each, newest first: its ID, its state, how often it still opens, until when (UTC), and its ' +
    'files; one line for other programs. File names come from the local history. The links ' +
    'themselves cannot be shown again: the service does not have them.',
  args: { limit: valueFlag('number', `The maximum number of shares (${defaultLimit})`) },
  service: true,
  examples: [{ command: 'sealpin shares', does: 'What is shared, and how often it still opens' }],
  async run({ args, context }) {
    const limit = atLeastOne(Number(args.limit ?? defaultLimit), '--limit');
    const http = sdkHttp(await authorizedService(context), context);
    const { items: listed, isComplete } = await firstItems(limit, 'shares', (page) =>
      sharesPage(http, { ...page, signal: context.signal }),
    );
    const names = await namesInHistory(context);
    const shares = listed.map((share) => ({
      ...share,
      names: share.files.flatMap((fileId) => names.get(fileId) ?? []),
    }));
    await context.output.result({ shares }, shareLines(shares, context));
    if (shares.length === 0) context.output.note('nothing is shared');
    if (!isComplete) context.output.note(`there are more: --limit ${limit * 10}`);
  },
});

type NamedShare = Share & { readonly names: readonly string[] };

function shareLines(shares: readonly NamedShare[], context: Context): string[] {
  const header = { about: 'state     left  until     ', name: 'what, and below it the ID', below: [] };
  const rows = shares.flatMap((share) =>
    rowLines({ about: aboutOf(share), name: shareName(share), below: [share.id] }, context),
  );
  return context.stdout.isTTY === true && rows.length > 0 ? [...rowLines(header, context), ...rows] : rows;
}

function aboutOf({ state, opens, opensLeft, expiresAt }: Share): string {
  return `${states[state].padEnd(7)}  ${`${opensLeft}/${opens}`.padStart(5)}  ${expiresAt.slice(0, 10)}`;
}

function shareName({ label, names, files, password }: NamedShare): string {
  const text = label ?? (names.length > 0 ? names.join(', ') : countText(files.length, 'file'));
  return password ? `${text}  (password)` : text;
}
