/** A folder to deploy from: the configuration of this project with a Worker that needs no build. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageRoot } from '../../cli/local/package-root.ts';
import { isSealpinError } from '../../shared/errors.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import type { DoctorContext } from '../check-deployment.ts';

/** A folder with a configuration. */
export type Folder = {
  dir: string;
  config: string;
  read(): Promise<string>;
  write(change: (text: string) => string): Promise<void>;
};

/** Makes one; it is removed when the test ends. */
export async function newFolder(): Promise<Folder> {
  const dir = await temporaryDirectory();
  const config = join(dir, 'wrangler.toml');
  const shipped = await readFile(join(packageRoot(), 'wrangler.toml'), 'utf8');
  await mkdir(join(dir, 'dist'));
  await writeFile(join(dir, 'dist', 'worker.js'), 'export default {};\n');
  await writeFile(config, shipped.replace(/^\[build\]\ncommand = .*$/m, ''));
  const read = () => readFile(config, 'utf8');
  return { dir, config, read, write: async (change) => await writeFile(config, change(await read())) };
}

/** The process of a command: its environment, and the lines that it prints. */
export function processWith(folder: Folder, env: Record<string, string>): DoctorContext & { lines: string[] } {
  const lines: string[] = [];
  return {
    lines,
    // No registry is asked for a newer wrangler.
    env: { PATH: process.env['PATH'], HOME: folder.dir, npm_config_registry: 'http://127.0.0.1:9', CI: '1', ...env },
    print: (line) => void lines.push(line),
    signal: new AbortController().signal,
    interactive: false,
  };
}

/** The code, the message and the hint of the error that something has to throw. */
export async function refusal(
  tried: Promise<unknown> | (() => unknown),
): Promise<[string, string, string | undefined]> {
  try {
    await (typeof tried === 'function' ? tried() : tried);
  } catch (error) {
    if (!isSealpinError(error)) throw error;
    return [error.code, error.message, error.hint];
  }
  throw new Error('nothing was refused');
}
