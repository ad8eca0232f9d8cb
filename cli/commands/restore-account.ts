import { layoutOf } from '../backup/layout.ts';
import { restoreBackup } from '../backup/restoration.ts';
import { defineCommand, positional, valueFlag } from '../command.ts';
import { readIdentities } from '../keys/key-files.ts';
import { givenPassword, withoutGivenPassword } from '../keys/passwords.ts';
import { passwordFlags } from '../flags/args.ts';
import { countText } from '../terminal/size.ts';

export const command = defineCommand({
  about:
    'Stores the files of a backup in the account of the API key, at any service. Blobs keep their IDs. What the ' +
    "service encrypted is opened here with the backup's account.key, which asks for its password, and encrypted " +
    'again to the new account, under a new blob ID. Files that are there already are left alone, so the same command ' +
    'resumes after an interruption. The API key needs the scopes read and write, and delete for files that expire.',
  args: {
    folder: positional('The folder of a backup', { path: 'folder' }),
    key: valueFlag('file', 'The private key of the account that was backed up; account.key of the folder if left out', {
      path: true,
    }),
    ...passwordFlags,
  },
  service: true,
  interrupted: 'what was restored stays: the same command resumes there',
  examples: [
    { command: 'sealpin restore /media/disk/backup', does: 'Into the account in use' },
    { command: 'sealpin restore /media/disk/backup --profile new', does: 'Into an account at another service' },
  ],
  async run({ args, context }) {
    const { output } = context;
    const layout = layoutOf(args.folder, context);
    const password = () => givenPassword(args, withoutGivenPassword(context));
    let progress: { add(bytes: number): void; done(): void } | undefined;
    const { failures, ...done } = await restoreBackup(
      layout,
      {
        identities: async () => readIdentities(args.key ?? layout.key, await password(), context),
        onBytes: (bytes) => (progress ??= output.progress('restoring')).add(bytes),
      },
      context,
    );
    progress?.done();
    const { restored, present, expired } = done;
    const more = expired === 0 ? '' : `, ${expired} had expired`;
    output.note(`${countText(restored, 'file')} restored, ${present} there already${more}`);
    if (failures.length > 0) throw failures[0];
    await output.result(done, []);
  },
});
