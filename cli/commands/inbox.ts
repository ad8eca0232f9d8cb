import { accountIdentities } from '../../client/account-key.ts';
import { inboxes, openDelivery, type Delivery } from '../../client/inboxes.ts';
import type { Identity } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { parseLink, type Parcel } from '../../shared/link/index.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { readContacts } from '../keys/contacts.ts';
import { readIdentities, readRecipients } from '../keys/key-files.ts';
import { isLink, prepareDirectory, receiveInto } from '../received-files.ts';
import { api, authorizedService } from '../remote/client.ts';
import type { Service } from '../remote/service-choice.ts';
import { sdkHttp } from '../remote/sdk.ts';
import { fittedRow } from '../terminal/fitted-row.ts';
import { sizeText } from '../terminal/progress.ts';
import { parseSize } from '../terminal/size.ts';
import { columnsOf } from '../terminal/streams.ts';
import { keyFlag } from './args.ts';
import { parseExpiry } from './expiry.ts';

const defaultExpiry = '30d';
/** How many files of the account `inbox list` looks at. */
const pageFiles = 100;

export const create = defineCommand({
  about:
    'Prints a link. Anyone who has it can hand files over, which only you can open: not the service, not other holders of ' +
    'the link, nor the sender afterwards. It is an API key that can only store; give it limits.',
  args: {
    label: { type: 'positional', description: 'What it is for' },
    expires: { type: 'string', valueHint: 'when', description: `Until when: 12h, 30d or a date (${defaultExpiry})` },
    recipient: {
      type: 'string',
      completes: 'contact',
      path: true,
      valueHint: 'who',
      description: 'Who can open what comes: a key file, contact or age1tag1…; your account if left out',
    },
    'max-files': { type: 'string', valueHint: 'number', description: 'The most files; each delivery adds one' },
    'max-bytes': { type: 'string', valueHint: 'size', description: 'The most bytes altogether, such as 1GB' },
  },
  service: true,
  examples: [{ command: 'sealpin inbox create tax-office --max-bytes 1GB', does: 'A link for up to 1 GB' }],
  async run({ args, context }) {
    const { output, signal } = context;
    const expiresAt = parseExpiry(args.expires ?? defaultExpiry, context.now());
    const limits = {
      ...(args['max-files'] === undefined ? {} : { files: atLeastOne(Number(args['max-files']), '--max-files') }),
      ...(args['max-bytes'] === undefined
        ? {}
        : { bytes: atLeastOne(parseSize(args['max-bytes'], '--max-bytes'), '--max-bytes') }),
    };
    const recipient = args.recipient === undefined ? undefined : await oneRecipient(args.recipient, context);
    const service = await authorizedService(context);
    const created = await inboxesAt(service, context).create({
      label: args.label,
      expiresAt,
      ...(Object.keys(limits).length > 0 ? { limits } : {}),
      ...(recipient === undefined ? {} : { recipient }),
      signal,
    });
    const { link, key } = created;
    output.note(`inbox "${key.label}", open until ${expiresAt.slice(0, 10)}; the link is shown only this once`);
    output.note('anyone with the link can hand files over; see them with: sealpin inbox list');
    output.note(`close it with: sealpin inbox revoke ${key.id}`);
    if (service.local) output.note('it leads to the service on this computer: others cannot reach it');
    await output.result(created, [link]);
  },
});

export const list = defineCommand({
  about:
    'For each delivery, newest first: its ID, the day, the size, who it is from (as they say) and its files; one line for ' +
    'other programs. What is for another key is shown without them.',
  args: { ...keyFlag },
  service: true,
  examples: [{ command: 'sealpin inbox list', does: 'What came, newest first' }],
  async run({ args, context }) {
    const { output, signal } = context;
    const service = await authorizedService(context);
    const deliveries: Delivery[] = [];
    let cursor: string | undefined;
    do {
      const page = await inboxesAt(service, context).list({
        limit: pageFiles,
        ...(cursor === undefined ? {} : { cursor }),
        signal,
      });
      deliveries.push(...page.deliveries);
      if (page.cursor === cursor) break;
      cursor = page.cursor;
    } while (cursor !== undefined);
    const identities = deliveries.length === 0 ? [] : await identitiesOf(args.key, service, context);
    const opened = [];
    for (const delivery of deliveries)
      opened.push({ ...delivery, ...summary(await parcelOf(delivery.id, identities, service, context)) });
    await output.result(
      { deliveries: opened },
      opened.flatMap((delivery) => deliveryLines(delivery, context)),
    );
    if (opened.length === 0) output.note('nothing has come');
  },
});

export const open = defineCommand({
  about: 'Writes the files of a delivery, each verified and authentic, or not at all. What came stays stored.',
  args: {
    id: { type: 'positional', description: 'Its ID (see: sealpin inbox list)' },
    dir: {
      type: 'positional',
      required: false,
      path: true,
      description: 'The directory to write to; this one if left out',
    },
    ...keyFlag,
    force: { type: 'boolean', description: 'Replace files of the same name' },
  },
  service: true,
  interrupted: 'the files that it named as written are complete: the same command writes all again, under other names',
  examples: [{ command: 'sealpin inbox open 0b6f7c1e-… receipts', does: 'Into the directory receipts' }],
  async run({ args, context }) {
    const { output, signal } = context;
    const service = await authorizedService(context);
    const identities = await identitiesOf(args.key, service, context);
    const parcel = await openDelivery(sdkHttp(service, context), args.id, { identities, signal }).catch(
      (error: unknown) => {
        if (!isSealpinError(error, 'not_found')) throw error;
        throw new SealpinError('not_found', 'there is no delivery with this ID', { hint: 'see: sealpin inbox list' });
      },
    );
    const directory = args.dir ?? '.';
    await prepareDirectory(directory, context);
    if (parcel.from !== undefined) output.note(`from ${parcel.from} (as they say)`);
    for (const line of parcel.note?.split('\n') ?? []) output.note(`note: ${line}`);
    const files = await receiveInto(directory, parcel, { service: service.url.href, force: args.force }, context);
    await output.result({ files, ...words(parcel) }, []);
  },
});

export const revoke = defineCommand({
  about: 'Nothing more can be handed over. What came stays.',
  args: { id: { type: 'positional', description: 'The ID of its API key (see: sealpin key list), or its link' } },
  service: true,
  examples: [{ command: 'sealpin inbox revoke 9f2c0d6be1a74583', does: 'Close an inbox' }],
  async run({ args, context }) {
    const service = await authorizedService(context);
    const routes = api(service, context);
    const id = await keyIdOf(args.id, service, context);
    const key = (await routes.listKeys()).keys.find((each) => each.id === id);
    if (key === undefined)
      throw new SealpinError('not_found', 'the account has no inbox with this ID', { hint: 'see: sealpin key list' });
    if (key.scopes.some((scope) => scope !== 'write'))
      throw new SealpinError('usage', 'that API key is none of an inbox', { hint: 'see: sealpin key revoke --help' });
    const { revoked } = await routes.revokeKey(id, { cascade: false, destroy: false, self: false });
    context.output.note(`closed "${key.label}"`);
    await context.output.result({ revoked }, []);
  },
});

function inboxesAt(service: Service, context: Context) {
  return inboxes(sdkHttp(service, context), service.apiKey);
}

/** @throws usage */
function atLeastOne(number: number, flag: string): number {
  if (!Number.isSafeInteger(number) || number < 1) throw new SealpinError('usage', `${flag} must be 1 or more`);
  return number;
}

async function oneRecipient(who: string, context: Context): Promise<string> {
  const [recipient, ...others] = await readRecipients([who], context, await readContacts(context));
  if (recipient?.text === undefined || others.length > 0)
    throw new SealpinError('usage', `${who} has several keys, and an inbox has one`, { hint: 'name one of them' });
  return recipient.text;
}

/** The private key of the account and, where there is one, that of the user. */
async function identitiesOf(key: string | undefined, service: Service, context: Context): Promise<Identity[]> {
  const http = sdkHttp(service, context);
  if (key !== undefined) return readIdentities(key, undefined, context);
  return accountIdentities(http, service.apiKey, context.signal);
}

/** Undefined for a delivery that is for another key, or damaged. */
async function parcelOf(
  id: string,
  identities: readonly Identity[],
  service: Service,
  context: Context,
): Promise<Parcel | undefined> {
  try {
    return await openDelivery(sdkHttp(service, context), id, { identities, signal: context.signal });
  } catch (error) {
    if (isSealpinError(error, 'decrypt_failed') || isSealpinError(error, 'parcel_invalid')) return undefined;
    throw error;
  }
}

type Words = Pick<Parcel, 'note' | 'from'>;

function words({ note, from }: Words): Words {
  return { ...(note === undefined ? {} : { note }), ...(from === undefined ? {} : { from }) };
}

type Summary = Words & { readonly files?: readonly { readonly name: string; readonly size: number }[] };

function summary(parcel: Parcel | undefined): Summary {
  if (parcel === undefined) return {};
  return { ...words(parcel), files: parcel.files.map(({ name, size }) => ({ name, size })) };
}

function deliveryLines({ id, receivedAt, from, files }: Delivery & Summary, { stdout }: Context): string[] {
  const day = receivedAt.slice(0, 10);
  const bytes = files && sizeText(files.reduce((sum, { size }) => sum + size, 0)).padStart(9);
  const about = bytes === undefined ? day : `${day}  ${bytes}`;
  const name = files
    ? `${from ?? '-'}: ${files.map(({ name: each }) => each).join(', ')}`
    : '(does not open with this key)';
  if (stdout.isTTY !== true) return [`${id}  ${about}  ${name}`];
  return fittedRow({ about, name, below: [id] }, columnsOf(stdout));
}

/** The ID of the API key of an inbox; a link has the key itself, which tells its ID. */
async function keyIdOf(text: string, service: Service, context: Context): Promise<string> {
  if (!isLink(text)) return text;
  const { link } = parseLink(text);
  if (link.kind !== 'inbox')
    throw new SealpinError('usage', 'this is not the link of an inbox', { hint: 'see: sealpin unshare --help' });
  const { key } = await api({ ...service, apiKey: link.apiKey }, context).account();
  return key.id;
}
