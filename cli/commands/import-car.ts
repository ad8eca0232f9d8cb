import { basename } from 'node:path';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand, positional, valueFlag } from '../command.ts';
import { openCar } from '../io/car-file.ts';
import { parseName } from '../io/safe-name.ts';
import { authorizedService } from '../remote/client.ts';
import { storeCopy, targetAt } from '../store/store-copy.ts';
import { readFailure } from '../fetch/fetch-blob.ts';
import { storingInterrupted } from '../flags/args.ts';
import { keepInHistory } from '../files/history.ts';

export const command = defineCommand({
  about:
    'The file keeps its CID, also where another program has laid it out: it comes from another IPFS ' +
    'service (ipfs dag export) or from sealpin export. Every block is verified first. The service ' +
    'stores it unchanged: what is not encrypted can be read by anyone with the blob ID.',
  args: {
    car: positional('The CAR file: a CARv1 of one file with raw leaves', { path: true }),
    name: valueFlag('name', 'What sealpin list calls it; the name of the CAR if left out'),
  },
  service: true,
  interrupted: storingInterrupted,
  examples: [{ command: 'sealpin import letter.car', does: 'Prints the blob ID, which is the root of the CAR' }],
  async run({ args, context }) {
    const { output } = context;
    if (args.car === '-')
      throw new SealpinError('usage', 'import does not read standard input: a CAR is read more than once', {
        hint: 'write it to a file, and name that; a file of that name is ./-',
      });
    const name = args.name === undefined ? basename(args.car).replace(/\.car$/i, '') : parseName(args.name, '--name');
    const service = await authorizedService(context);
    const car = await openCar(args.car, context);
    try {
      const target = await targetAt(service, context);
      const progress = output.progress('storing');
      const sending = { idempotencyKey: crypto.randomUUID(), onBytes: progress.add };
      const { cid, fileId, bytes } = await storeCopy(car.root, [car.source], target, sending);
      progress.done();
      await keepInHistory({ cid, fileId, service: service.url.href, bytes, name }, context);
      await output.result({ blobId: cid, fileId, size: bytes, service: service.url.href }, [cid]);
    } catch (error) {
      throw readFailure(error);
    } finally {
      await car.close();
    }
  },
});
