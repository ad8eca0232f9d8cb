import { SealpinError } from '../../shared/errors.ts';
import { defineCommand, positional, valueFlag } from '../command.ts';
import { api, authorizedService } from '../remote/client.ts';
import { parseBlobId, readFailure, sourcesAt, sourcesOf } from '../fetch/fetch-blob.ts';
import { parseServiceUrl } from '../remote/service-choice.ts';
import { storeCopy, targetAt } from '../store/store-copy.ts';
import { sizeText } from '../terminal/size.ts';
import { storingInterrupted } from '../flags/args.ts';
import { keepInHistory } from '../files/history.ts';

export const command = defineCommand({
  about:
    'Keeps a copy of a file that somebody else published, under the same blob ID: it is fetched from the configured ' +
    'gateways, each block verified, and stored in your account. It stays when they delete theirs.',
  args: {
    blob_id: positional('The blob ID, or a link with it: ipfs://…, https://…/ipfs/…'),
    from: valueFlag('url', 'The service or trustless gateway that has it, instead of the configured ones'),
    name: valueFlag('name', 'What sealpin list calls it'),
  },
  service: true,
  interrupted: storingInterrupted,
  examples: [
    { command: 'sealpin pin bafybei… --from https://sealpin.example.com', does: 'From the service that has it' },
    { command: 'sealpin pin ipfs://bafybei…', does: 'From the gateways in config.json' },
  ],
  async run({ args, context }) {
    const { output } = context;
    const cid = parseBlobId(args.blob_id);
    const service = await authorizedService(context);
    const sources =
      args.from === undefined ? await sourcesOf(context) : sourcesAt([parseServiceUrl(args.from, '--from')], context);
    if (args.from === undefined && service.gateways.length === 0)
      throw new SealpinError('usage', 'no gateway is configured that it could be fetched from', {
        hint: 'name one with --from <url>, or in "gateways" of config.json',
      });
    const [present] = (await api(service, context).list({ cid, limit: 1 })).files;
    if (present !== undefined) {
      output.note('the account has it already: nothing was stored');
      const { fileId, size } = present;
      await output.result({ blobId: cid, fileId, size, service: service.url.href, stored: false }, [cid]);
      return;
    }
    try {
      const target = await targetAt(service, context);
      const progress = output.progress('fetching and storing');
      const sending = { idempotencyKey: crypto.randomUUID(), onBytes: progress.add };
      const { fileId, bytes } = await storeCopy(cid, sources, target, sending);
      progress.done();
      await keepInHistory({ cid, fileId, service: service.url.href, bytes, name: args.name }, context);
      output.note(`stored a copy (${sizeText(bytes)})`);
      await output.result({ blobId: cid, fileId, size: bytes, service: service.url.href, stored: true }, [cid]);
    } catch (error) {
      throw readFailure(error);
    }
  },
});
