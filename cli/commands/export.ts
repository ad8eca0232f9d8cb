import { SealpinError } from '../../shared/errors.ts';
import { blobAsCar, blobSize, parseBlobId, readFailure } from '../remote/fetch-blob.ts';
import { defineCommand } from '../command.ts';
import { openSink } from '../io/output-file.ts';
import { sizeText } from '../terminal/progress.ts';

export const command = defineCommand({
  name: 'export',
  summary: 'Write a blob, as it is stored, into a CAR file',
  about:
    'Every block is checked against the blob ID. Any IPFS node takes the file (ipfs dag import), and the blob keeps its ID there: this is how to move what is stored, or to put it onto the public network.',
  args: {
    blob_id: { type: 'positional', description: 'The blob ID' },
    file: { type: 'positional', description: 'The CAR file to write' },
    force: { type: 'boolean', description: 'Replace the file if it exists' },
  },
  service: true,
  examples: [
    { command: 'sealpin export bafkrei… letter.car', does: 'Into a file' },
    {
      command: 'sealpin export bafkrei… letter.car --service https://sealpin.example.com',
      does: 'From another service',
    },
  ],
  async run({ args, context }) {
    if (args.file === '-')
      throw new SealpinError('usage', 'a CAR is checked while it is written, so it goes into a file', {
        hint: 'name a new file, such as letter.car',
      });
    const cid = parseBlobId(args.blob_id);
    const sink = await openSink(args.file, { force: args.force, world: context, fileOnly: true });
    try {
      await sink.room(await blobSize(cid, context));
      const progress = context.output.progress('fetching');
      let bytes = 0;
      for await (const chunk of await blobAsCar(cid, context)) {
        await sink.write(chunk);
        bytes += chunk.length;
        progress.add(chunk.length);
      }
      progress.done();
      const path = await sink.commit();
      context.output.note(`wrote ${args.file} (${sizeText(bytes)})`);
      await context.output.result({ blobId: cid, file: path, size: bytes }, []);
    } catch (error) {
      throw readFailure(error);
    } finally {
      await sink.abort();
    }
  },
});
