/** `sealpin service …`: backups of the whole local service. */
import { SealpinError } from '../../shared/errors.ts';
import { type BadFile, checkService } from '../backup/service/check-service.ts';
import { restoreService } from '../backup/service/restore-service.ts';
import { serviceFolder } from '../backup/service/service-folder.ts';
import { backUpService, type SealedFor } from '../backup/service/take-service.ts';
import { defineCommand, positional, toggle, valueFlag, type Values } from '../command.ts';
import type { Context } from '../context.ts';
import { failWrite } from '../errno.ts';
import { newPasswordFlags, passwordFlags } from '../flags/args.ts';
import { readTo, toFlag } from '../flags/to-flag.ts';
import { intoDirectory } from '../io/paths.ts';
import { quietSqlite } from '../io/quiet-sqlite.ts';
import { startCommand } from '../local/state.ts';
import { newPassword } from '../keys/passwords.ts';
import { countText, sizeText } from '../terminal/size.ts';

const withoutSecrets = { type: 'boolean' } as const;

export const serviceBackup = defineCommand({
  about:
    'All accounts, API keys, links and files of the local service, as they are in one moment, while ' +
    'it runs. The next run copies only what is new, and removes what was deleted. Its tokens are ' +
    'encrypted, to the keys of --to or with a password; the rest of the folder is as readable as the ' +
    'data directory. sealpin backup is for one account.',
  args: {
    dir: positional('The folder, which is made if it is missing', { path: 'folder' }),
    to: { ...toFlag.to, description: 'Encrypt the tokens to these contacts, key files or recipients' },
    'without-secrets': { ...withoutSecrets, description: 'Leave the tokens out' },
    check: toggle('Only read what is in the folder, and compare it with its hashes; nothing is changed'),
    ...newPasswordFlags,
  },
  interrupted: 'the backup is as it was before: the same command resumes there',
  examples: [
    { command: 'sealpin service backup /media/disk/service --to ann', does: 'Every night' },
    { command: 'sealpin service backup /media/disk/service --check', does: 'Whether the copy is still right' },
  ],
  async run({ args, context }) {
    quietSqlite();
    const { output } = context;
    const folder = serviceFolder(args.dir, context);
    const passwordFlag = args['password-file'] === undefined ? 'generate' : 'password-file';
    const [one, other] = (['to', 'without-secrets', 'check', passwordFlag] as const).filter(
      (name) => args[name] !== undefined && args[name] !== false,
    );
    if (other !== undefined)
      throw new SealpinError('usage', `--${one} does not go with --${other}`, { hint: 'leave one of them out' });
    if (args.check) {
      const { files, bad, takenAt } = await checkService(folder, context);
      const hint = 'remove the named files: the next run copies them again';
      refuseBad(bad, 'of the backup cannot be restored', hint, context);
      output.note(`all databases and ${countText(files, 'file')} in ${args.dir} are intact, as of ${takenAt}`);
      await output.result({ takenAt, files }, []);
      return;
    }
    const sealedFor = args['without-secrets'] ? undefined : await sealedForOf(args, context);
    const progress = output.progress('copying');
    const back = () => backUpService(folder, sealedFor, progress.add, context);
    const taken = await intoDirectory(folder.root, failWrite(args.dir), back);
    progress.done();
    const { written, files, databases } = taken;
    output.note(
      `${countText(files, 'file')} and ${countText(databases, 'database')} in ${args.dir}: ` +
        `${written.files} and ${written.databases} new or changed (${sizeText(written.bytes)} of files)`,
    );
    if (taken.foreign > 0)
      output.warn(
        `the bytes of ${countText(taken.foreign, 'file')} are at another backend, such as a Kubo: not in the backup`,
      );
    const bad = taken.bad.map(({ cid, why }) => ({ path: cid, of: 'a file of the service', why }));
    refuseBad(bad, 'of the service are not in the backup', 'see: sealpin verify --all', context);
    await output.result(taken, []);
  },
});

async function sealedForOf(
  args: Values<typeof toFlag & typeof newPasswordFlags>,
  context: Context,
): Promise<SealedFor> {
  if (args.to !== undefined) return { to: await readTo(args.to, context) };
  const isGiven = args.generate || args['password-file'] !== undefined;
  return { password: () => newPassword(args, 'key', context), isGiven };
}

/** Names what is damaged. @throws content_mismatch if there is any */
function refuseBad(bad: readonly BadFile[], what: string, hint: string, { output }: Context): void {
  for (const { path, of, why } of bad) output.warn(`${path} (${of}) is ${why}`);
  if (bad.length > 0) throw new SealpinError('content_mismatch', `${countText(bad.length, 'file')} ${what}`, { hint });
}

export const serviceRestore = defineCommand({
  about:
    'Into a data directory without a local service, also on another machine: API keys and links are as in ' +
    'the moment of the backup. Each file is checked; all of it appears at the end, or nothing.',
  args: {
    dir: positional('The folder of a backup', { path: 'folder' }),
    key: valueFlag('file', 'The private key for tokens that are encrypted to a key; private.key if left out', {
      path: true,
    }),
    'without-secrets': {
      ...withoutSecrets,
      description: 'Make new tokens: start then makes another account, and API keys that you have still work',
    },
    ...passwordFlags,
  },
  interrupted: 'nothing was restored: the same command begins again',
  examples: [
    { command: 'sealpin service restore /media/disk/service', does: 'It asks for the password of the tokens' },
  ],
  async run({ args, context }) {
    quietSqlite();
    const { output, dataDir } = context;
    const folder = serviceFolder(args.dir, context);
    const progress = output.progress('restoring');
    const restored = await restoreService(folder, { ...args, onBytes: progress.add }, context);
    progress.done();
    const { files, bytes, takenAt, bad } = restored;
    output.note(`${countText(files, 'file')} (${sizeText(bytes)}) in ${dataDir}, as of ${takenAt}`);
    if (!restored.secrets) output.note('its tokens are new; API keys work as before');
    const start = await startCommand(dataDir);
    refuseBad(bad, 'are missing from what was restored', `everything else is there: ${start}`, context);
    output.note(`start it with: ${start}`);
    await output.result(restored, []);
  },
});
