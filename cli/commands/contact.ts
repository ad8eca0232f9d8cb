import { SealpinError } from '../../shared/errors.ts';
import { defineCommand, positional, toggle } from '../command.ts';
import { changeContacts, type Contacts, parseContactName, readContacts } from '../keys/contacts.ts';
import { fingerprint } from '../keys/fingerprint.ts';
import { readPublicKeys } from '../keys/key-files.ts';
import { changeSigners, readSigners } from '../keys/signers.ts';
import { isNarrow } from '../terminal/fitted-row.ts';
import { columnsOf } from '../terminal/streams.ts';
import { suggestion } from '../terminal/suggestion.ts';

/** A contact as `--json` shows it. @param signers whose signatures are those of the contact */
async function shownContact(name: string, recipients: readonly string[], signers: readonly string[]) {
  const keys = recipients.map(async (recipient) => ({ recipient, fingerprint: await fingerprint(recipient) }));
  const signing = signers.map(async (signer) => ({ signer, fingerprint: await fingerprint(signer) }));
  return { name, keys: await Promise.all(keys), ...(signing.length > 0 && { signers: await Promise.all(signing) }) };
}

/** The name under which a contact is stored that differs at most in capital letters. */
function sameName(name: string, contacts: Contacts): string | undefined {
  return [...contacts.keys()].find((each) => each.toLowerCase() === name.toLowerCase());
}

export const contactAdd = defineCommand({
  about:
    'encrypt --to and send --to then take the name. Compare the six words of the fingerprint with ' +
    'the owner, by telephone or in person: sealpin keygen shows them to the owner, and contact list ' +
    'to you.',
  args: {
    name: positional('What you call them'),
    public_key_file: positional('Their public key: a file, - or a recipient (age1…), or a signer (sealpin-signer1…)', {
      path: true,
    }),
    force: toggle('Replace the key of an existing contact'),
  },
  examples: [
    { command: 'sealpin contact add ann ann-public.key', does: 'From a file that Ann sent' },
    { command: 'sealpin contact add ben age1tag1…', does: 'From a recipient' },
  ],
  async run({ args, context }) {
    const name = parseContactName(args.name);
    const { recipients, signers } = await readPublicKeys(args.public_key_file, context);
    // A name means one person: the other file must not have it in another spelling.
    const before = { contacts: await readContacts(context), signers: await readSigners(context) };
    const replaced = (kept: Contacts, keys: readonly string[], other: Contacts) => {
      const existing = sameName(name, kept);
      const others = sameName(name, other);
      if ((existing !== undefined || (others !== undefined && others !== name)) && !args.force)
        throw new SealpinError('conflict', `there is a contact ${existing ?? others}`, {
          hint: 'to replace its key use --force; compare the new fingerprint with its owner',
        });
      return new Map([...kept].filter(([each]) => each !== existing)).set(name, keys);
    };
    if (recipients.length > 0)
      await changeContacts(context, (contacts) => replaced(contacts, recipients, before.signers));
    if (signers.length > 0) await changeSigners(context, (known) => replaced(known, signers, before.contacts));
    const contact = await shownContact(name, recipients, signers);
    for (const key of contact.keys) context.output.note(`${name} has the fingerprint ${key.fingerprint}`);
    for (const key of contact.signers ?? []) context.output.note(`${name} signs as ${key.fingerprint}`);
    context.output.note('compare it with the owner of the key before you send anything secret');
    await context.output.result(contact, []);
  },
});

export const contactList = defineCommand({
  about: 'One line for each key. With --json, the keys are there, too.',
  args: {},
  examples: [{ command: 'sealpin contact list', does: 'Names and fingerprints' }],
  async run({ context }) {
    const [kept, signers] = [await readContacts(context), await readSigners(context)];
    const names = [...new Set([...kept.keys(), ...signers.keys()])].toSorted((a, b) => a.localeCompare(b));
    const contacts = await Promise.all(
      names.map((name) => shownContact(name, kept.get(name) ?? [], signers.get(name) ?? [])),
    );
    const width = Math.max(0, ...contacts.map(({ name }) => name.length));
    const isSplit = context.stdout.isTTY === true && isNarrow(columnsOf(context.stdout));
    await context.output.result(
      { contacts },
      contacts.flatMap(({ name, keys, signers: signing = [] }) =>
        [...keys.map((key) => key.fingerprint), ...signing.map((key) => `${key.fingerprint} (signs)`)].flatMap(
          (words) => (isSplit ? [name, `  ${words}`] : [`${name.padEnd(width)}  ${words}`]),
        ),
      ),
    );
    if (contacts.length === 0)
      context.output.note('there are no contacts: sealpin contact add <name> <public_key_file> makes one');
  },
});

export const contactRemove = defineCommand({
  about: 'What was encrypted to their key before stays as it is.',
  args: { name: positional('The name of the contact', { completes: 'contact' }) },
  examples: [{ command: 'sealpin contact remove ann', does: 'Forget the key of Ann' }],
  async run({ args, context }) {
    const name = args.name.normalize('NFC');
    const isSigner = (await readSigners(context)).has(name);
    await changeContacts(context, (contacts) => {
      if (!contacts.has(name) && !isSigner)
        throw new SealpinError('not_found', `there is no contact ${name}`, {
          hint: suggestion(name, [...contacts.keys()]) ?? 'see: sealpin contact list',
        });
      return new Map([...contacts].filter(([each]) => each !== name));
    });
    if (isSigner) await changeSigners(context, (signers) => new Map([...signers].filter(([each]) => each !== name)));
    context.output.note(`removed ${name}`);
    await context.output.result({ removed: name }, []);
  },
});
