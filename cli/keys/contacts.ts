/** Contacts: names for other people's public keys, and for those that they sign with. */
import * as v from 'valibot';
import { namedRecord } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { changeKept, type Kept, readKept } from '../io/kept-json.ts';

/** Keys of one kind of each contact, by name. */
export type Contacts = ReadonlyMap<string, readonly string[]>;

/**
 * A file of public keys by the names of contacts.
 * @param name of the file, and of its member with the keys
 */
function keysByName(name: 'contacts' | 'signers') {
  const keys = namedRecord(v.string(), v.pipe(v.array(v.string()), v.minLength(1)));
  const shape = v.strictObject({ v: v.literal(1), [name]: keys });
  const kept: Kept<typeof shape> = { name, shape, none: { v: 1 as const, [name]: {} } };
  const contactsIn = (content: v.InferOutput<typeof shape>): Contacts =>
    new Map(Object.entries(content[name] as v.InferOutput<typeof keys>).toSorted(([a], [b]) => a.localeCompare(b)));
  return {
    /** Reads them, in the order of their names. Fails as `readKept`. */
    read: async (context: Context): Promise<Contacts> => contactsIn(await readKept(kept, context)),
    /** Changes them, while no other command does. Fails as `changeKept` and `change`. */
    change: (context: Context, change: (contacts: Contacts) => Contacts | Promise<Contacts>): Promise<void> =>
      changeKept(kept, context, async (before) => ({
        ...before,
        [name]: Object.fromEntries([...(await change(contactsIn(before)))].map(([each, texts]) => [each, [...texts]])),
      })),
  };
}

const recipientKeys = keysByName('contacts');
const signerKeys = keysByName('signers');

/** The recipients of contacts, without who has none. */
export const { read: readContacts } = recipientKeys;
/** The signers of contacts (`sealpin-signer1…`), without who has none. */
export const { read: readSigners } = signerKeys;

/** All keys of contacts. */
export type ContactKeys = { readonly recipients: Contacts; readonly signers: Contacts };

/**
 * Changes all keys of contacts, while no other command does: nothing is written before `change` has
 * decided on both kinds. Fails as `changeKept`, and with what `change` throws.
 */
export function changeContacts(context: Context, change: (kept: ContactKeys) => ContactKeys): Promise<void> {
  return recipientKeys.change(context, async (recipients) => {
    const changed = change({ recipients, signers: await readSigners(context) });
    // Who has the recipients has the signers, too.
    await signerKeys.change(context, () => changed.signers);
    return changed.recipients;
  });
}

/** Letters and digits of any script, then also `._+@-`: nothing that paths or recipients need. */
const namePattern = /^[\p{L}\p{N}][\p{L}\p{N}\p{M}._+@-]{0,63}$/u;

/** Checks the name of a contact, and writes it in one way (NFC). @throws usage */
export function parseContactName(text: string): string {
  const name = text.normalize('NFC');
  if (namePattern.test(name) && !name.startsWith('age1')) return name;
  throw new SealpinError('usage', `${JSON.stringify(text)} cannot be the name of a contact`, {
    hint: 'a name has up to 64 letters, digits and . _ + @ -, and begins with a letter or digit',
  });
}
