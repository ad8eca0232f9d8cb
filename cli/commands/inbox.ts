import { accountIdentities } from '../../client/account-key.ts';
import { concernsDelivery, inboxes, isDelivery, openSealed, readDelivery } from '../../client/inboxes.ts';
import { keyDefaults } from '../../client/limited-key.ts';
import type { StoredFile } from '../../shared/api.ts';
import type { Identity } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError, otherwise } from '../../shared/errors.ts';
import type { Parcel } from '../../shared/link/index.ts';
import { defineCommand, positional, toggle, valueFlag } from '../command.ts';
import type { Context } from '../context.ts';
import { pathsIn } from '../io/paths.ts';
import { readContacts, type Contacts } from '../keys/contacts.ts';
import { fingerprint } from '../keys/fingerprint.ts';
import { readIdentities, readRecipients } from '../keys/key-files.ts';
import { shownSignature, type ShownSignature } from '../keys/signers.ts';
import { forEachOf } from '../files/side-by-side.ts';
import { receiveInto, receivingInto } from '../files/received-files.ts';
import { authorizedService, api, sdkHttp } from '../remote/client.ts';
import { revokeLinkedKey } from '../files/own-link.ts';
import { everyFile } from '../remote/pages.ts';
import type { Service } from '../remote/service-choice.ts';
import { rowLines } from '../terminal/fitted-row.ts';
import { parseSize, sizeText } from '../terminal/size.ts';
import { atLeastOne, keyFlag, receiveExtractArg, parseExpiry } from '../flags/args.ts';
import { linkEndFlag, showLink, termsText } from '../flags/link-terms.ts';
import { hinting } from '../terminal/hints.ts';

/** The key pair of the account, which opens deliveries to inboxes of earlier versions. */
const ofAccount = 'account';
/** The most deliveries that `inbox list` opens: anyone with a link can make many. */
const mostOpened = 100;

export const inboxCreate = defineCommand({
  about:
    'Prints a link. Anyone who has it can hand files over, which only your private.key opens: not ' +
    'the service, not other holders of the link, nor the sender afterwards. The link holds an API ' +
    'key that can only store, within its limits.',
  args: {
    label: positional('What it is for'),
    ...linkEndFlag,
    recipient: valueFlag(
      'who',
      'Who can open what comes: a key file, contact or age1tag1…; your public.key if left out',
      { completes: 'contact', path: true },
    ),
    'max-files': valueFlag('number', `The most files, to which each delivery adds one (${keyDefaults.limits.files})`),
    'max-bytes': valueFlag('size', `The most bytes altogether, such as 500MB (${sizeText(keyDefaults.limits.bytes)})`),
  },
  service: true,
  examples: [{ command: 'sealpin inbox create tax-office --max-bytes 100MB', does: 'A link for up to 100 MB' }],
  async run({ args, context }) {
    const { signal } = context;
    const expiresAt = parseExpiry(args.expires, context.now());
    const limits = {
      ...(args['max-files'] === undefined ? {} : { files: atLeastOne(Number(args['max-files']), '--max-files') }),
      ...(args['max-bytes'] === undefined
        ? {}
        : { bytes: atLeastOne(parseSize(args['max-bytes'], '--max-bytes'), '--max-bytes') }),
    };
    const contacts = await readContacts(context);
    if (args.recipient === ofAccount && !contacts.has(ofAccount))
      throw new SealpinError('usage', 'a new inbox is not sealed to the key of the account, which the service names', {
        hint: 'leave --recipient out for your public.key',
      });
    const recipient = await recipientFor(args.recipient, contacts, context);
    const service = await authorizedService(context);
    const created = await inboxes(sdkHttp(service, context), service.apiKey).create({
      label: args.label,
      recipient,
      expiresAt,
      limits,
      signal,
    });
    const { key } = created;
    const notes = [
      `inbox "${key.label}", open ${termsText(key)}; the link is shown only this once`,
      `sealed to ${args.recipient ?? 'your public.key'}: ${await fingerprint(recipient)}`,
      'anyone with the link can hand files over; see them with: sealpin inbox list',
      `close it with: sealpin inbox revoke ${key.id}`,
    ];
    await showLink(created, { notes, service, context });
  },
});

export const inboxList = defineCommand({
  about:
    'For each delivery, newest first: its ID, the day, the size, who it is from (as they say) and its files; one ' +
    `line for other programs. What cannot be opened is shown with the reason. The newest ${mostOpened} are opened.`,
  args: { ...keyFlag },
  service: true,
  examples: [{ command: 'sealpin inbox list', does: 'What came, newest first' }],
  async run({ args, context }) {
    const { output } = context;
    const service = await authorizedService(context);
    const files: StoredFile[] = [];
    for await (const file of everyFile(service, context)) if (isDelivery(file)) files.unshift(file);
    const open = files.length === 0 ? undefined : await openerOf(args.key, service, context);
    const deliveries: ListedDelivery[] = [];
    await forEachOf(files.entries(), async ([index, file]) => {
      const summary = open === undefined || index >= mostOpened ? {} : await deliverySummary(file, open, context);
      deliveries[index] = { id: file.fileId, receivedAt: file.createdAt, ...summary };
    });
    const lines = deliveries.flatMap((delivery) => deliveryLines(delivery, context));
    await output.result({ deliveries }, lines);
    if (deliveries.length === 0) output.note('no deliveries yet');
    if (deliveries.length > mostOpened)
      output.note(`only the newest ${mostOpened} are opened; any other one with: sealpin inbox open <id>`);
    const weak = deliveries.filter(({ sealedTo }) => sealedTo === ofAccount).length;
    if (weak > 0) output.note(`${weak} of these: ${makeANewOne}`);
  },
});

const makeANewOne = 'sealed to the account key, which the service named: make a new inbox';

export const inboxOpen = defineCommand({
  about:
    'Writes the files of a delivery, each verified and authentic, or not at all. What came stays stored ' +
    'until you delete it: sealpin delete <id>.',
  args: {
    id: positional('Its ID (see: sealpin inbox list)'),
    dir: positional('The directory to write to; this one if left out', { required: false, path: 'folder' }),
    ...keyFlag,
    extract: receiveExtractArg,
    force: toggle('Replace files of the same name'),
  },
  service: true,
  interrupted: 'each file that it has written is complete: the same command writes all again, under other names',
  examples: [{ command: 'sealpin inbox open 0b6f7c1e-… receipts', does: 'Into the directory receipts' }],
  async run({ args, context }) {
    const { output } = context;
    const service = await authorizedService(context);
    const asked = api(service, context).file(args.id);
    const file = await hinting(asked, 'not_found', 'see: sealpin inbox list', 'there is no delivery with this ID');
    const found = await (await openerOf(args.key, service, context))(file);
    if ('problem' in found) throw found.problem;
    const { parcel } = found;
    if (found.sealedTo === ofAccount) output.note(makeANewOne);
    const directory = args.dir ?? '.';
    const to = { ...args, service: service.url.href, share: undefined };
    await receivingInto(directory, context, () => receiveInto(directory, parcel, to, context));
  },
});

export const inboxRevoke = defineCommand({
  about: 'Closes the inbox. Delivered files are kept.',
  args: { id: positional('The ID of its API key (see: sealpin key list), or its link') },
  service: true,
  examples: [{ command: 'sealpin inbox revoke 9f2c0d6be1a74583', does: 'Close an inbox' }],
  async run({ args, context }) {
    const { label, revoked } = await revokeLinkedKey(args.id, { kind: 'inbox', scope: 'write' }, context);
    context.output.note(`closed "${label}"`);
    await context.output.result({ revoked }, []);
  },
});

/**
 * The one key that opens what comes: the user's own, unless another one is named. Nobody is asked
 * for it.
 * @throws file_not_found without a pair, key_invalid for a key that a link cannot have, usage for
 * several keys
 */
async function recipientFor(who: string | undefined, contacts: Contacts, context: Context): Promise<string> {
  const { publicKey } = pathsIn(context.dataDir);
  const [recipient, ...others] = await readRecipients([who ?? publicKey], context, contacts).catch((error: unknown) => {
    const isMissing = isSealpinError(error, 'key_invalid') && isSealpinError(error.cause, 'key_invalid');
    if (who !== undefined || !isMissing) throw error;
    throw new SealpinError('file_not_found', `there is no public key in ${context.dataDir}`, {
      hint: 'make a pair with: sealpin keygen; or say who can open what comes, with --recipient',
      cause: error,
    });
  });
  if (recipient?.text === undefined || others.length > 0)
    throw new SealpinError('usage', `${who ?? publicKey} has several keys, and an inbox has one`, {
      hint: 'name one of them with --recipient',
    });
  if (!recipient.text.startsWith('age1tag1'))
    throw new SealpinError('key_invalid', `${who ?? publicKey} is no P-256 key, and an inbox takes no other kind`, {
      reason: 'unsupported_key',
      hint: 'make a pair with: sealpin keygen --output <dir>; then --recipient <dir>/public.key',
    });
  return recipient.text;
}

/** A delivery that was opened, with whose key; or why it was not. */
type OpenedDelivery =
  | { readonly parcel: Parcel; readonly sealedTo: typeof ofAccount | 'key' }
  | { readonly problem: SealpinError };
type Opener = (file: StoredFile) => Promise<OpenedDelivery>;

/** Opens deliveries with the named private key, else that of the account, else the user's own. */
async function openerOf(key: string | undefined, service: Service, context: Context): Promise<Opener> {
  const http = sdkHttp(service, context);
  const named = key === undefined ? undefined : await readIdentities(key, undefined, context);
  const account = named === undefined ? await accountIdentities(http, service.apiKey, context.signal) : [];
  let own: Promise<readonly Identity[]> | undefined;
  return async (file) => {
    const sealed = await attempt(() => readDelivery(http, file, context.signal), context);
    if (sealed instanceof SealpinError) return { problem: sealed };
    const opening = (identities: readonly Identity[]) =>
      attempt(() => openSealed(http, file, sealed, identities), context);
    const first = await opening(named ?? account);
    if (!(first instanceof SealpinError)) return { parcel: first, sealedTo: named === undefined ? ofAccount : 'key' };
    if (named !== undefined || first.reason !== 'no_key') return { problem: first };
    own ??= otherwise(readIdentities(undefined, undefined, context), 'file_not_found', []);
    const second = (await own).length === 0 ? first : await opening(await own);
    return second instanceof SealpinError ? { problem: second } : { parcel: second, sealedTo: 'key' };
  };
}

/**
 * Returns the result of `work`, or its failure: a delivery that does not open must hide no other.
 */
async function attempt<T>(work: () => Promise<T>, { signal }: Context): Promise<T | SealpinError> {
  try {
    return await work();
  } catch (error) {
    if (signal.aborted || !concernsDelivery(error)) throw error;
    return error;
  }
}

type ListedDelivery = Partial<Awaited<ReturnType<typeof deliverySummary>>> & {
  readonly id: string;
  readonly receivedAt: string;
};

/** Content of a delivery; else the code of why it cannot be opened, with the detail. */
async function deliverySummary(file: StoredFile, open: Opener, context: Context) {
  const found = await open(file);
  if ('problem' in found) return { problem: found.problem.code, detail: found.problem.message };
  const { note, from, files, signed } = found.parcel;
  return {
    note,
    from,
    files: files.map(({ name, size }) => ({ name, size })),
    sealedTo: found.sealedTo,
    signed: signed && (await shownSignature(signed, context)),
  };
}

/** The sender: the contact who signed it, else the name that they give. */
function senderText(from = '-', signed: ShownSignature | undefined): string {
  if (signed?.state !== 'valid') return signed === undefined ? from : `${from} (signature wrong)`;
  return `${signed.name ?? from} (signed${signed.name === undefined ? ` by ${signed.words}` : ''})`;
}

function deliveryLines({ id, receivedAt, from, files, problem, detail, signed }: ListedDelivery, context: Context) {
  const day = receivedAt.slice(0, 10);
  const bytes = files && sizeText(files.reduce((sum, { size }) => sum + size, 0)).padStart(9);
  const about = bytes === undefined ? day : `${day}  ${bytes}`;
  const closed = problem === undefined ? '(not opened)' : `(cannot be opened: ${detail})`;
  const name = files ? `${senderText(from, signed)}: ${files.map(({ name: each }) => each).join(', ')}` : closed;
  return rowLines({ about, name, below: [id] }, context);
}
