/** The files that a Kubo in the process in front takes in: by the product's code, in memory. */
import { once } from 'node:events';
import type { FileIntake } from '../../cli/local/node/direct.ts';
import { openWriter } from '../../cli/local/node/writer.ts';
import type { SimulatedKubo } from './simulated-kubo.ts';

/** Makes the intake of a Kubo, which does not pin what it takes. */
export function intakeOf({ behaviour, blocks, pins, pinning }: SimulatedKubo): FileIntake {
  const written = new Map<string, Uint8Array[]>();
  return {
    async writer() {
      await behaviour.disk();
      const writer = await openWriter('', undefined);
      const pieces: Uint8Array[] = [];
      written.set(writer.name, pieces);
      const write = writer.write.bind(writer);
      writer.write = async (bytes) => {
        pieces.push(new Uint8Array(bytes));
        await write(bytes);
      };
      return writer;
    },
    async publish(files) {
      await behaviour.disk();
      for (const { file, blocks: rows } of files) {
        const all = Buffer.concat(written.get(file) ?? []);
        written.delete(file);
        for (const { cid, node, offset, bytes } of rows)
          if (!blocks.has(cid)) blocks.set(cid, node ?? new Uint8Array(all.subarray(offset, offset + bytes)));
      }
    },
    catalog: {
      async untilPinned(cid, signal) {
        if (!pins.has(cid)) await once(pinning, cid, { signal });
      },
    },
  };
}
