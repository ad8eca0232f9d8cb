/** Terms of the API keys in links, of inboxes and of invitations, and how such a link is shown. */
import { keyDefaults } from '../../client/limited-key.ts';
import type { ApiKeyRecord } from '../../shared/api.ts';
import type { Context } from '../context.ts';
import type { Service } from '../remote/service-choice.ts';
import { countText, sizeText } from '../terminal/size.ts';
import { valueFlag } from '../command.ts';
import { expiryForms } from './args.ts';

/** Flag for the end of such a key. */
export const linkEndFlag = {
  expires: valueFlag('when', `Until when it works: ${expiryForms}; ${keyDefaults.days}d if left out`),
} as const;

/** The terms of a key in words, such as "until 2026-11-23, for 20 files, 477 MiB". */
export function termsText({ expiresAt, limits: { files, bytes, fileBytes } = {} }: ApiKeyRecord): string {
  const most = [
    ...(files === undefined ? [] : [countText(files, 'file')]),
    ...(bytes === undefined ? [] : [sizeText(bytes)]),
    ...(fileBytes === undefined ? [] : [`${sizeText(fileBytes)} a file`]),
  ];
  return [`until ${expiresAt?.slice(0, 10) ?? 'it is revoked'}`, ...(most.length > 0 ? [most.join(', ')] : [])].join(
    ', for ',
  );
}

/**
 * Prints a link that was made, and what its holders can do.
 * @param notes what it is, and how to end it
 */
export async function showLink(
  created: { readonly link: string },
  { notes, service, context }: { notes: readonly string[]; service: Service; context: Context },
): Promise<void> {
  const { output } = context;
  for (const note of notes) output.note(note);
  if (service.local) output.note('it leads to the service on this computer: others cannot reach it');
  await output.result(created, [created.link]);
}
