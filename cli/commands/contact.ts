import { SealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import { changeContacts, type Contacts, parseContactName, readContacts } from '../keys/contacts.ts';
import { fingerprint } from '../keys/fingerprint.ts';
import { readRecipients } from '../keys/key-files.ts';
import { isNarrow } from '../terminal/fitted-row.ts';
import { columnsOf } from '../terminal/streams.ts';
import { suggestion } from '../terminal/suggestion.ts';

/** A contact as `--json` shows it. */
type Shown = { readonly name: string; readonly keys: { readonly recipient: string; readonly fingerprint: string }[] };

async function shownContact(name: string, recipients: readonly string[]): Promise<Shown> {
  const keys = recipients.map(async (recipient) => ({ recipient, fingerprint: await fingerprint(recipient) }));
  return { name, keys: await Promise.all(keys) };
}

/** The name under which a contact is stored that differs at most in capital letters. */
function sameName(name: string, contacts: Contacts): string | undefined {
  return [...contacts.keys()].find((each) => each.toLowerCase() === name.toLowerCase());
}

export const contactAdd = defineCommand({
  about:
    'ecc-encrypt then takes the name instead of the key. Compare the six words of the fingerprint with the owner, by ' +
    'telephone or in person: sealpin keygen shows them to the owner, and contact list to you.',
  args: {
    name: { type: 'positional', description: 'What you call them' },
    public_key_file: {
      type: 'positional',
      path: true,
      description: 'Their public key: a file, - or a recipient (age1…)',
    },
    force: { type: 'boolean', description: 'Replace the key of an existing contact' },
  },
  examples: [
    { command: 'sealpin contact add ann ann-public.key', does: 'From a file that Ann sent' },
    { command: 'sealpin contact add ben age1tag1…', does: 'From a recipient' },
  ],
  async run({ args, context }) {
    const name = parseContactName(args.name);
    const recipients = (await readRecipients([args.public_key_file], context)).map(({ text }) => text ?? '');
    await changeContacts(context, (contacts) => {
      const existing = sameName(name, contacts);
      if (existing !== undefined && !args.force)
        throw new SealpinError('conflict', `there is a contact ${existing}`, {
          hint: 'to replace its key use --force; compare the new fingerprint with its owner',
        });
      return new Map([...contacts].filter(([each]) => each !== existing)).set(name, recipients);
    });
    const contact = await shownContact(name, recipients);
    for (const key of contact.keys) context.output.note(`${name} has the fingerprint ${key.fingerprint}`);
    context.output.note('compare it with the owner of the key before you send anything secret');
    await context.output.result(contact, []);
  },
});

export const contactList = defineCommand({
  about: 'One line for each key. With --json, the keys are there, too.',
  args: {},
  examples: [{ command: 'sealpin contact list', does: 'Names and fingerprints' }],
  async run({ context }) {
    const contacts = await Promise.all(
      [...(await readContacts(context))].map(([name, recipients]) => shownContact(name, recipients)),
    );
    const width = Math.max(0, ...contacts.map(({ name }) => name.length));
    const isSplit = context.stdout.isTTY === true && isNarrow(columnsOf(context.stdout));
    await context.output.result(
      { contacts },
      contacts.flatMap(({ name, keys }) =>
        keys.flatMap((key) =>
          isSplit ? [name, `  ${key.fingerprint}`] : [`${name.padEnd(width)}  ${key.fingerprint}`],
        ),
      ),
    );
    if (contacts.length === 0)
      context.output.note('there are no contacts: sealpin contact add <name> <public_key_file> makes one');
  },
});

export const contactRemove = defineCommand({
  about: 'What was encrypted to their key before stays as it is.',
  args: { name: { type: 'positional', completes: 'contact', description: 'The name of the contact' } },
  examples: [{ command: 'sealpin contact remove ann', does: 'Forget the key of Ann' }],
  async run({ args, context }) {
    const name = args.name.normalize('NFC');
    await changeContacts(context, (contacts) => {
      if (!contacts.has(name))
        throw new SealpinError('not_found', `there is no contact ${name}`, {
          hint: suggestion(name, [...contacts.keys()]) ?? 'see: sealpin contact list',
        });
      return new Map([...contacts].filter(([each]) => each !== name));
    });
    context.output.note(`removed ${name}`);
    await context.output.result({ removed: name }, []);
  },
});
