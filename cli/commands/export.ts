import { SealpinError } from '../../shared/errors.ts';
import { parseBlobId, writeCar } from '../fetch/fetch-blob.ts';
import { defineCommand, positional } from '../command.ts';
import { ownFilesIn } from '../fetch/own-files.ts';
import { sizeText } from '../terminal/size.ts';
import { forceArg } from '../flags/args.ts';

export const command = defineCommand({
  about:
    'Every block is verified against the blob ID. Any IPFS node can import the file (ipfs dag import), and the ' +
    'blob keeps its ID there: use it to move a blob to another node, or to the public network.',
  args: {
    blob_id: positional('The blob ID', { completes: 'blob' }),
    file: positional('The CAR file to write', { path: true }),
    force: forceArg,
  },
  service: true,
  interrupted: 'nothing was written: the same command begins again',
  examples: [
    { command: 'sealpin export bafkrei… letter.car', does: 'Into a file' },
    {
      command: 'sealpin export bafkrei… letter.car --service https://sealpin.example.com',
      does: 'From another service',
    },
  ],
  async run({ args, context: given }) {
    const context = { ...given, ownFile: ownFilesIn(given) };
    if (args.file === '-')
      throw new SealpinError('usage', 'a CAR, which is verified while it is written, does not go to standard output', {
        hint: 'name a new file, such as letter.car',
      });
    const cid = parseBlobId(args.blob_id);
    const { path, bytes } = await writeCar(cid, args.file, { force: args.force, label: 'fetching' }, context);
    context.output.note(`wrote ${args.file} (${sizeText(bytes)})`);
    await context.output.result({ blobId: cid, file: path, size: bytes }, []);
  },
});
