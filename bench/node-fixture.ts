/** The embedded node as it is shipped, a Kubo, and the forms that both take. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import { commandOptions, lateNoble } from '../cli/startup/command-bundle.ts';
import { startKubo } from '../testkit/programs/kubo.ts';
import { startProgram } from '../testkit/programs/programs.ts';

/** A node that can be started again with what it has. `remove` stops it, too. */
export type MeasuredNode = {
  start(): Promise<{ url: string; token: string }>;
  stop(): Promise<void>;
  remove(): Promise<void>;
};

/** The embedded node in a process of its own, bundled: Kubo is a compiled program, too. */
export async function embeddedNode(): Promise<MeasuredNode> {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-bench-'));
  const program = join(dir, 'node.cjs');
  await build({ ...commandOptions, entryPoints: ['bench/node-process.ts'], outfile: program, plugins: [lateNoble] });
  const args = [program, join(dir, 'data')];
  let stop = async (): Promise<void> => undefined;
  return {
    async start() {
      const node = await startProgram(process.execPath, args, { ready: urlIn });
      stop = () => node.stop('SIGKILL');
      return { url: node.ready, token: 't' };
    },
    stop: () => stop(),
    async remove() {
      await stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** The address that a program prints in a line of its own. */
export const urlIn = (output: string): string | undefined => /^(http:.*)\n/m.exec(output)?.[1];

/** A Kubo. @param o.syncs whether a block is on the disk when it is acknowledged */
export async function kuboNode(o: { syncs?: boolean } = {}): Promise<MeasuredNode> {
  const node = await startKubo(o);
  let isNew = true;
  return {
    async start() {
      if (!isNew) await node.start();
      isNew = false;
      return node;
    },
    stop: () => node.stop(),
    remove: () => node.close(),
  };
}

/** A form with one file (RFC 7578), as Kubo's RPC takes it: what surrounds the bytes. */
export const multipartForm = {
  type: 'multipart/form-data; boundary=xyz',
  head: Buffer.from('--xyz\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'),
  tail: Buffer.from('\r\n--xyz--\r\n'),
};
