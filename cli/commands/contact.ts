import { SealpinError } from '../../shared/errors.ts';
import { defineCommand, positional, toggle } from '../command.ts';
import {
  changeContacts,
  type ContactKeys,
  type Contacts,
  parseContactName,
  readContacts,
  readSigners,
} from '../keys/contacts.ts';
import { fingerprint } from '../keys/fingerprint.ts';
import { type PublicKeys, readPublicKeys } from '../keys/key-files.ts';
import { factLines } from '../terminal/fitted-row.ts';
import { suggestion } from '../terminal/suggestion.ts';

/** A contact as `--json` shows it. @param signers whose signatures are those of the contact */
async function shownContact(name: string, recipients: readonly string[], signers: readonly string[]) {
  const keys = recipients.map(async (recipient) => ({ recipient, fingerprint: await fingerprint(recipient) }));
  const signing = signers.map(async (signer) => ({ signer, fingerprint: await fingerprint(signer) }));
  return { name, keys: await Promise.all(keys), ...(signing.length > 0 && { signers: await Promise.all(signing) }) };
}

/** Recognizes a name that differs at most in capital letters: both mean one person. */
const isSameName = (name: string, other: string): boolean => name.toLowerCase() === other.toLowerCase();

function without(contacts: Contacts, isGone: (name: string) => boolean): Contacts {
  return new Map([...contacts].filter(([name]) => !isGone(name)));
}

/** The keys of a person, under all spellings of the name. */
function keysOf({ recipients, signers }: ContactKeys, name: string): PublicKeys {
  const found = (contacts: Contacts) => [...contacts].flatMap(([each, keys]) => (isSameName(each, name) ? keys : []));
  return { recipients: found(recipients), signers: found(signers) };
}

/** The keys of a contact that is made, or completed. @throws conflict where it has another key */
function completed(kept: ContactKeys, name: string, added: PublicKeys): PublicKeys {
  const before = keysOf(kept, name);
  const names = [...kept.recipients.keys(), ...kept.signers.keys()].filter((each) => isSameName(each, name));
  const isOther =
    names.some((each) => each !== name) ||
    (before.recipients.length > 0 && added.recipients.length > 0) ||
    (before.signers.length > 0 && added.signers.some((signer) => !before.signers.includes(signer)));
  if (isOther)
    throw new SealpinError('conflict', `there is a contact ${names.find((each) => each !== name) ?? name}`, {
      hint: 'to replace all of its keys use --force; compare the new fingerprint with its owner',
    });
  return {
    recipients: [...before.recipients, ...added.recipients],
    signers: before.signers.length > 0 ? before.signers : added.signers,
  };
}

export const contactAdd = defineCommand({
  about:
    'encrypt --to and send --to then take the name. Compare the six words of the fingerprint with the owner, by ' +
    'telephone or in person: sealpin keygen shows them to the owner, and contact list to you.',
  args: {
    name: positional('What you call them'),
    public_key_file: positional('Their public key: a file, - or a recipient (age1…), or a signer (sealpin-signer1…)', {
      path: true,
    }),
    force: toggle('Replace all keys of an existing contact'),
  },
  examples: [
    { command: 'sealpin contact add ann ann-public.key', does: 'From a file that Ann sent' },
    { command: 'sealpin contact add ben age1tag1…', does: 'From a recipient' },
  ],
  async run({ args, context }) {
    const name = parseContactName(args.name);
    const added = await readPublicKeys(args.public_key_file, context);
    let before: PublicKeys = { recipients: [], signers: [] };
    let after = added;
    await changeContacts(context, (kept) => {
      before = keysOf(kept, name);
      after = args.force ? added : completed(kept, name, added);
      const withKeys = (contacts: Contacts, keys: readonly string[]): Contacts => {
        const others = without(contacts, (each) => isSameName(each, name));
        return keys.length > 0 ? new Map(others).set(name, keys) : others;
      };
      return {
        recipients: withKeys(kept.recipients, after.recipients),
        signers: withKeys(kept.signers, after.signers),
      };
    });
    const { note } = context.output;
    const contact = await shownContact(name, after.recipients, after.signers);
    for (const key of contact.keys) note(`${name} has the fingerprint ${key.fingerprint}`);
    for (const key of contact.signers ?? []) note(`${name} signs as ${key.fingerprint}`);
    for (const key of before.recipients)
      if (!after.recipients.includes(key)) note(`${name} no longer has the fingerprint ${await fingerprint(key)}`);
    for (const key of before.signers)
      if (!after.signers.includes(key)) note(`${name} no longer signs as ${await fingerprint(key)}`);
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
    await context.output.result(
      { contacts },
      contacts.flatMap(({ name, keys, signers: signing = [] }) =>
        [...keys.map((key) => key.fingerprint), ...signing.map((key) => `${key.fingerprint} (signs)`)].flatMap(
          (words) => factLines(`${name.padEnd(width)}  `, words, context),
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
    await changeContacts(context, ({ recipients, signers }) => {
      const names = [...recipients.keys(), ...signers.keys()];
      if (!names.includes(name))
        throw new SealpinError('not_found', `there is no contact ${name}`, {
          hint: suggestion(name, names) ?? 'see: sealpin contact list',
        });
      const isGone = (each: string): boolean => each === name;
      return { recipients: without(recipients, isGone), signers: without(signers, isGone) };
    });
    context.output.note(`removed ${name}`);
    await context.output.result({ removed: name }, []);
  },
});
