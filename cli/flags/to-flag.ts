/** The flag `--to`: whom something is for. */
import type { Recipient } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { readContacts } from '../keys/contacts.ts';
import { readRecipients } from '../keys/key-files.ts';
import { valueFlag } from '../command.ts';

/** Takes several names in one value, with commas between them, and may be given again. */
export const toFlag = {
  to: valueFlag('who', 'Only for these contacts, key files or recipients: with commas between them, or --to again', {
    repeats: true,
    completes: 'contact',
    path: true,
  }),
} as const;

/** The recipients that `--to` names. Fails as `namesIn` and `readRecipients`. */
export async function readTo(values: readonly string[], context: Context): Promise<Recipient[]> {
  return readRecipients(namesIn(values), context, await readContacts(context));
}

/** The names in the values of `--to`. @throws usage for an empty one */
export function namesIn(values: readonly string[]): string[] {
  const names = values.flatMap((value) => value.split(','));
  if (names.includes(''))
    throw new SealpinError('usage', 'one of the names in --to is empty', { hint: 'is a variable not set?' });
  return names;
}
