/** Contacts: names for the public keys of other people, in the data directory. */
import { join } from 'node:path';
import * as v from 'valibot';
import { namedRecord } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { changeKept, type Kept, readKept } from '../io/kept-json.ts';
import { pathsIn } from '../io/paths.ts';

const file = v.strictObject({
  v: v.literal(1),
  contacts: namedRecord(v.string(), v.pipe(v.array(v.string()), v.minLength(1))),
});
/** The recipients of each contact, by name. */
export type Contacts = ReadonlyMap<string, readonly string[]>;

/**
 * Letters and digits of any script, then also `.`, `_`, `+`, `@` and `-`: nothing that a path or a
 * recipient needs.
 */
const namePattern = /^[\p{L}\p{N}][\p{L}\p{N}\p{M}._+@-]{0,63}$/u;

/** Checks the name of a contact, and writes it in one way (NFC). @throws usage */
export function parseContactName(text: string): string {
  const name = text.normalize('NFC');
  if (namePattern.test(name) && !name.startsWith('age1')) return name;
  throw new SealpinError('usage', `${JSON.stringify(text)} cannot be the name of a contact`, {
    hint: 'a name has up to 64 letters, digits and . _ + @ -, and begins with a letter or digit',
  });
}

function kept(dataDir: string): Kept<typeof file> {
  const path = join(pathsIn(dataDir).contacts, 'contacts.json');
  return { path, what: 'contacts', shape: file, none: { v: 1, contacts: {} } };
}

/** Reads the contacts, in the order of their names. Fails as `readKept`. */
export async function readContacts(context: Context): Promise<Contacts> {
  return contactsIn(await readKept(kept(context.dataDir), context));
}

/**
 * Changes the contacts, while no other command does. Fails as `changeKept`, and with what `change`
 * throws.
 */
export async function changeContacts(context: Context, change: (contacts: Contacts) => Contacts): Promise<void> {
  await changeKept(kept(context.dataDir), context, (before) => ({
    ...before,
    contacts: Object.fromEntries([...change(contactsIn(before))].map(([name, keys]) => [name, [...keys]])),
  }));
}

function contactsIn({ contacts }: v.InferOutput<typeof file>): Contacts {
  return new Map(Object.entries(contacts).toSorted(([a], [b]) => a.localeCompare(b)));
}
