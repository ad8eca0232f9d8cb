import { fileKeyIdentity, passwordRecipient, rewrap } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand, positional, toggle, type Values } from '../command.ts';
import type { Context } from '../context.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { newPassword, refuseBoth, withoutGivenPassword } from '../keys/passwords.ts';
import { readTo, toFlag } from '../flags/to-flag.ts';
import { api, authorizedService } from '../remote/client.ts';
import { parseBlobId, readFailure } from '../fetch/fetch-blob.ts';
import { ownFilesOf } from '../fetch/own-files.ts';
import { openDownload } from '../fetch/kept-download.ts';
import { limitsOf, refuseLarge } from '../store/limits.ts';
import { store } from '../store/store-blob.ts';
import { fileKeyOfBlob } from '../files/stored-file.ts';
import { keyFlag, newPasswordFlags, storingInterrupted } from '../flags/args.ts';
import { fileInHistory } from '../files/history.ts';
import { keepStored } from '../files/sealed-names.ts';

export const command = defineCommand({
  about:
    'The new blob has an ID of its own; the encrypted content stays as it is and is not decrypted. The old blob ' +
    'stays, and opens for whom it did: delete it, and encrypt the file again if somebody who could open it must not ' +
    'open a copy any more. What opens the old blob comes from SEALPIN_PASSWORD, the terminal or private.key.',
  args: {
    blob_id: positional('The blob ID', { completes: 'blob' }),
    ...toFlag,
    password: toggle('With a new password, which you enter twice'),
    ...newPasswordFlags,
    ...keyFlag,
    mix: toggle('Allow post-quantum and classical keys together'),
  },
  service: true,
  interrupted: storingInterrupted,
  examples: [
    { command: 'sealpin reseal bafkrei… --to ann,ben', does: 'For two contacts' },
    { command: 'sealpin reseal bafkrei… --password', does: 'With another password' },
  ],
  async run({ args, context }) {
    const { output, signal } = context;
    const cid = parseBlobId(args.blob_id);
    const wantsPassword = args.password || args.generate || args['password-file'] !== undefined;
    if (wantsPassword === (args.to !== undefined))
      throw new SealpinError('usage', 'it needs either new keys or a new password', {
        hint: 'give --to <who> or --password',
      });
    refuseBoth(args);
    const service = await authorizedService(context);
    const own = { ...context, ownFile: ownFilesOf(service) };
    const routes = api(service, context);
    const { requestBytes } = limitsOf(await routes.health());
    const fileKey = await fileKeyOfBlob(cid, args.key, own);
    const recipients = await newRecipients(args, context);
    const download = await openDownload(cid, own);
    try {
      refuseLarge(download.size, requestBytes);
      const identities = [fileKeyIdentity(fileKey)];
      const stream = await rewrap(download.stream, { identities, recipients, mix: args.mix, provider: nodeProvider });
      const progress = output.progress('storing', download.size);
      const file = await store({ stream, bytes: undefined }, { api: routes, context, onBytes: progress.add });
      progress.done();
      download.complete();
      const { name, modified } = await fileInHistory(cid, context);
      const kept = { cid: file.cid, fileId: file.fileId, bytes: file.size, name };
      await keepStored({ ...kept, modified }, service, context);
      output.warn(`the old blob can still be opened with the old password or keys: sealpin delete ${cid} unpins it`);
      const shown = { blobId: file.cid, fileId: file.fileId, size: file.size, service: service.url.href, old: cid };
      await output.result(shown, [file.cid]);
    } catch (error) {
      signal.throwIfAborted();
      throw readFailure(error);
    } finally {
      await download.close();
    }
  },
});

async function newRecipients(args: Values<typeof toFlag & typeof newPasswordFlags>, context: Context) {
  if (args.to !== undefined) return readTo(args.to, context);
  const password = await newPassword(args, 'blob', withoutGivenPassword(context));
  return [passwordRecipient(password, { name: 'scrypt', logN: context.scryptLogN })];
}
