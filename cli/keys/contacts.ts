/** Contacts: names for the public keys of other people, in the data directory. */
import { join } from 'node:path';
import * as v from 'valibot';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { holdFolder } from '../io/held-folder.ts';
import { readSmall } from '../io/input.ts';
import { openSink } from '../io/output-file.ts';
import { pathsIn } from '../io/paths.ts';

/** Room for ten thousand contacts; a longer file is damaged. */
const limitBytes = 16 * 1024 * 1024;
/** A change takes a moment: so often, and so long apart, another command's is waited for. */
const tries = 50;
const waitMs = 100;

const file = v.strictObject({
  v: v.literal(1),
  contacts: v.record(v.string(), v.pipe(v.array(v.string()), v.minLength(1))),
});
/** The recipients of each contact, by name. */
export type Contacts = ReadonlyMap<string, readonly string[]>;

/** Letters and digits of any script, then also `.`, `_`, `+`, `@` and `-`: nothing that a path or a recipient needs. */
const namePattern = /^[\p{L}\p{N}][\p{L}\p{N}\p{M}._+@-]{0,63}$/u;

/**
 * Checks the name of a contact, and writes it in one way (NFC).
 *
 * @throws usage
 */
export function parseContactName(text: string): string {
  const name = text.normalize('NFC');
  if (namePattern.test(name) && !name.startsWith('age1')) return name;
  throw new SealpinError('usage', `${JSON.stringify(text)} cannot be the name of a contact`, {
    hint: 'a name has up to 64 letters, digits and . _ + @ -, and begins with a letter or digit',
  });
}

/**
 * Reads the contacts, in the order of their names.
 *
 * @throws config_invalid when the file is damaged, file_unreadable
 */
export async function readContacts({ dataDir, stdin }: Context): Promise<Contacts> {
  const path = pathOf(dataDir);
  let bytes;
  try {
    bytes = await readSmall(path, { limitBytes, what: 'contacts', environment: { cwd: dataDir, stdin } });
  } catch (error) {
    if (isSealpinError(error, 'file_not_found')) return new Map();
    throw error;
  }
  try {
    const { contacts } = v.parse(file, JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)));
    return new Map(Object.entries(contacts).toSorted(([a], [b]) => a.localeCompare(b)));
  } catch (error) {
    throw new SealpinError('config_invalid', `${path} is damaged`, {
      hint: 'fix it or move it out of the way; nothing was changed',
      cause: error,
    });
  }
}

/**
 * Changes the contacts, while no other command does.
 *
 * @param change gets them as they are, and returns them as they become
 * @throws conflict while another command changes them for seconds; what `change` throws; file_unwritable, disk_full
 */
export async function changeContacts(context: Context, change: (contacts: Contacts) => Contacts): Promise<void> {
  const { contacts: folder } = pathsIn(context.dataDir);
  const held = await hold(folder, context);
  try {
    const contacts = Object.fromEntries(change(await readContacts(context)));
    const sink = await openSink(pathOf(context.dataDir), { force: true, environment: context, fileOnly: true });
    try {
      await sink.write(new TextEncoder().encode(`${JSON.stringify({ v: 1, contacts }, undefined, 2)}\n`));
      await sink.commit();
    } finally {
      await sink.abort();
    }
  } finally {
    held.release();
  }
}

function pathOf(dataDir: string): string {
  return join(pathsIn(dataDir).contacts, 'contacts.json');
}

async function hold(folder: string, { dataDir, signal }: Context): Promise<{ release(): void }> {
  for (let left = tries; left > 0; left -= 1) {
    signal.throwIfAborted();
    const held = await holdFolder(folder, dataDir);
    if (held !== undefined) return held;
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
  throw new SealpinError('conflict', 'another command is changing the contacts', { hint: 'try again' });
}
