import { SealpinError } from '../../shared/errors.ts';
import { checkBackup } from '../backup/check.ts';
import { layoutOf, refuseLocal } from '../backup/layout.ts';
import { takeBackup } from '../backup/take.ts';
import { defineCommand, positional, toggle } from '../command.ts';
import type { Context } from '../context.ts';
import { failWrite } from '../errno.ts';
import { givenPassword, newPassword } from '../keys/passwords.ts';
import { countText, sizeText } from '../terminal/size.ts';
import { newPasswordFlags } from '../flags/args.ts';

export const command = defineCommand({
  about:
    'Every file of the account is fetched as it is stored, each block verified against its blob ID, with what is ' +
    'known of it. The next run fetches only what is new, also after an interruption. What is encrypted stays so, and ' +
    'names and tags, too: the key of the account opens what the service encrypted, and is written to account.key ' +
    'with a password on it. The API key needs the scope read.',
  args: {
    folder: positional('The folder, which is made if it is missing', { path: 'folder' }),
    check: toggle('Only read the folder, and compare each block with its blob ID; no service is asked'),
    prune: toggle('Remove what the account no longer has'),
    ...newPasswordFlags,
  },
  service: true,
  interrupted: 'what is in the folder stays: the same command resumes there',
  examples: [
    { command: 'sealpin backup /media/disk/backup', does: 'The first time it asks for a new password' },
    { command: 'sealpin backup /media/disk/backup --check', does: 'Whether the copy is still right' },
  ],
  async run({ args, context }) {
    const layout = layoutOf(args.folder, context);
    if (!args.check) {
      await refuseLocal(layout, context.dataDir).catch(failWrite(args.folder));
      let isNew = false;
      const taken = await takeBackup(
        layout,
        {
          newPassword() {
            isNew = true;
            return newPassword(args, 'key', context);
          },
          password: () => givenPassword(args, context),
          prune: args.prune,
        },
        context,
      );
      const { files, written, fetchedBytes, gone } = taken;
      const { output } = context;
      if (args.generate && !isNew) output.warn('account.key was there: it keeps its password, and none was generated');
      output.note(
        `${countText(files, 'file')} in ${args.folder}: ${written} new or changed (${sizeText(fetchedBytes)} fetched)`,
      );
      if (gone.length > 0)
        output.note(
          args.prune
            ? `${countText(gone.length, 'file')} removed, which the account no longer has`
            : `${countText(gone.length, 'file')} deleted from the account since, which stay in the folder ` +
                'until you use --prune',
        );
      await output.result({ files, written, fetchedBytes, gone, pruned: args.prune }, []);
      return;
    }
    const idle = args.prune ? 'prune' : 'generate';
    if (args[idle])
      throw new SealpinError('usage', `--check changes nothing: it does not go with --${idle}`, {
        hint: 'leave one of them out',
      });
    await check(args.folder, await givenPassword(args, context), context);
  },
});

async function check(folder: string, password: string | undefined, context: Context): Promise<void> {
  const { output } = context;
  const progress = output.progress('verifying');
  const reading = { password, onBytes: progress.add };
  const { files, bytes, bad, keyFault } = await checkBackup(layoutOf(folder, context), reading, context);
  progress.done();
  for (const { fileId, why } of bad) output.warn(`${fileId}: ${why}`);
  if (bad.length > 0) {
    if (keyFault !== undefined) output.warn(keyFault.message);
    const detail = `${bad.length} of ${countText(files, 'file')} in ${folder} cannot be restored`;
    const hint =
      'remove the named files from the folder: the next sealpin backup fetches them again, if the account has them';
    throw new SealpinError('content_mismatch', detail, { hint });
  }
  // Another password says nothing about the backup.
  if (keyFault?.code === 'decrypt_failed') throw keyFault;
  if (keyFault !== undefined)
    throw new SealpinError('content_mismatch', `${folder} cannot be restored: ${keyFault.message}`, {
      hint: keyFault.hint,
      cause: keyFault,
    });
  output.note(`all blocks of ${countText(files, 'file')} in ${folder} are present and intact (${sizeText(bytes)})`);
  output.note(
    password === undefined
      ? 'account.key is there; with its password it is tried, too (--password-file)'
      : 'account.key opens, and is the key of this account',
  );
  await output.result({ files, size: bytes }, []);
}
