import { privateKeyOf } from '../../client/account-key.ts';
import { encodePrivateKeyFile } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand, positional, toggle } from '../command.ts';
import { openSink } from '../io/output-file.ts';
import { protect } from '../keys/key-files.ts';
import { newPassword } from '../keys/passwords.ts';
import { api, authorizedService } from '../remote/client.ts';
import { forceArg, newPasswordFlags } from '../flags/args.ts';

export const command = defineCommand({
  about:
    'With this key, decrypt --key opens the containers of files that the service encrypted (GET /v1/storage/<fileId> ' +
    'with Accept: application/vnd.sealpin), without the service. The service returns the key sealed to your API key, ' +
    'and it is unsealed on this machine. Keep a copy: if you lose every API key with the scope read, nothing else ' +
    'opens those files, unless the account has a recovery key.',
  args: {
    file: positional('The key file to write', { path: true }),
    protect: toggle('Protect it with a password, which you enter twice'),
    ...newPasswordFlags,
    force: forceArg,
  },
  service: true,
  examples: [{ command: 'sealpin key export account.key --protect', does: 'With a password on it' }],
  async run({ args, context }) {
    if (args.file === '-')
      throw new SealpinError('usage', 'a private key is not written to standard output', { hint: 'name a file' });
    const service = await authorizedService(context);
    const sink = await openSink(args.file, { force: args.force, environment: context, fileOnly: true });
    const details = await api(service, context).account();
    const text = encodePrivateKeyFile(await privateKeyOf(details, service.apiKey));
    try {
      const password = args.protect ? await newPassword(args, 'key', context) : undefined;
      await sink.write(await protect(text, password, context));
      const path = await sink.commit();
      context.output.note(
        `wrote ${args.file} (keep it secret: it opens every file that the service encrypted for this account)`,
      );
      if (details.rotation !== undefined)
        context.output.warn(
          `the key pair of the account is being replaced: ${args.file} opens all once sealpin account rotate has run`,
        );
      await context.output.result({ file: path, account: details.account.id }, []);
    } finally {
      await sink.abort();
    }
  },
});
