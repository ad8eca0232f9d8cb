import { invitations } from '../../client/invitations.ts';
import { keyDefaults } from '../../client/limited-key.ts';
import type { ApiKeyRecord } from '../../shared/api.ts';
import { defineCommand, positional, valueFlag } from '../command.ts';
import type { Context } from '../context.ts';
import { linkEndFlag, showLink, termsText } from '../flags/link-terms.ts';
import { authorizedService, sdkHttp } from '../remote/client.ts';
import { revokeLinkedKey } from '../files/own-link.ts';
import { rowLines } from '../terminal/fitted-row.ts';
import { sizeText } from '../terminal/size.ts';
import { parseExpiry, parseLimits } from '../flags/args.ts';

const defaultName = 'guest';

export const inviteCreate = defineCommand({
  about:
    'Prints a link for somebody without an account. In a browser, its holder sends files, which this service stores ' +
    'encrypted, sees the links that they made, and takes them back. The link holds an API key that reads nothing and ' +
    'sees nothing else of your account. All links that were made with it end with it.',
  args: {
    name: valueFlag('name', `What sealpin invite list calls it (${defaultName})`),
    ...linkEndFlag,
    limits: valueFlag(
      'limits',
      'What may be stored at a time: files, bytes, fileBytes of one file ' +
        `(files=${keyDefaults.limits.files},bytes=${sizeText(keyDefaults.limits.bytes).replace(' ', '')})`,
    ),
  },
  service: true,
  examples: [
    { command: 'sealpin invite create --name ann --expires 30d', does: 'Ann may send files for 30 days' },
    { command: 'sealpin invite create --name ann --limits files=20,bytes=100MB', does: 'Little at a time' },
  ],
  async run({ args, context }) {
    const { signal } = context;
    const expiresAt = parseExpiry(args.expires, context.now());
    const limits = args.limits === undefined ? undefined : parseLimits(args.limits);
    const service = await authorizedService(context);
    const created = await invitations(sdkHttp(service, context)).create({
      label: args.name ?? defaultName,
      expiresAt,
      limits,
      signal,
    });
    const { key } = created;
    const notes = [
      `invitation "${key.label}", ${termsText(key)}; the link is shown only this once`,
      'anyone with the link can send, and take back what was sent with it',
      `end it, with all of its links, with: sealpin invite revoke ${key.id}`,
    ];
    await showLink(created, { notes, service, context });
  },
});

export const inviteList = defineCommand({
  about: 'For each: the ID of its API key, until when, what may be stored at a time, and its name.',
  args: {},
  service: true,
  examples: [{ command: 'sealpin invite list', does: 'Who may send files, and until when' }],
  async run({ context }) {
    const { output, signal } = context;
    const listed = await invitations(sdkHttp(await authorizedService(context), context)).list({ signal });
    const lines = listed.flatMap((key) => invitationLines(key, context));
    await output.result({ invitations: listed }, lines);
    if (listed.length === 0) output.note('nobody is invited');
  },
});

export const inviteRevoke = defineCommand({
  about: 'Ends the invitation. Its links stop working at once, and what was stored for them is deleted.',
  args: { id: positional('The ID of its API key (see: sealpin invite list), or its link') },
  service: true,
  examples: [{ command: 'sealpin invite revoke 9f2c0d6be1a74583', does: 'End an invitation' }],
  async run({ args, context }) {
    const { label, revoked } = await revokeLinkedKey(args.id, { kind: 'invitation', scope: 'send' }, context);
    context.output.note(`ended "${label}", with its links and files`);
    await context.output.result({ revoked }, []);
  },
});

function invitationLines(key: ApiKeyRecord, context: Context): string[] {
  const isOver = key.expiresAt !== undefined && Date.parse(key.expiresAt) <= context.now();
  const about = isOver ? `ended ${key.expiresAt?.slice(0, 10)}` : termsText(key);
  return rowLines({ about, name: key.label, below: [key.id] }, context);
}
