/** `sealpin rebuild`: the Worker from its source, swapped into the running service. */
import { isSealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import { bundleWorker } from '../local/code/bundle.ts';
import { control } from '../local/control.ts';

export const command = defineCommand({
  about:
    'Waits up to 10 s for running requests; state and port stay the same. If no service is running, it only builds.',
  args: {},
  examples: [{ command: 'sealpin rebuild', does: 'After a change to worker/ or shared/' }],
  async run({ context }) {
    try {
      const { bytes, ms } = await control(context, 'rebuild');
      context.output.note(`the Worker was rebuilt (${kib(bytes)}) and swapped in after ${ms} ms`);
      await context.output.result({ bytes, ms, running: true }, []);
    } catch (error) {
      if (!isSealpinError(error, 'not_running')) throw error;
      const bytes = Buffer.byteLength(await bundleWorker());
      context.output.note(`the Worker builds (${kib(bytes)}); no service is running`);
      await context.output.result({ bytes, running: false }, []);
    }
  },
});

function kib(bytes: number): string {
  return `${Math.ceil(bytes / 1024)} KiB`;
}
