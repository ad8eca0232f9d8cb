/** Small JSON files in the data directory: 0600, replaced as a whole, by one command at a time. */
import { basename, dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import * as v from 'valibot';
import { SealpinError, otherwise } from '../../shared/errors.ts';
import { sleep } from '../../shared/streams/timing.ts';
import type { Context } from '../context.ts';
import { holdFolder, removeFolder } from './held-folder.ts';
import { readSmall, type Reading } from './input.ts';
import { writeSmall, type Writing } from './output-file.ts';

/** Room for ten thousand entries; a longer file is damaged. */
const keptLimitBytes = 16 * 1024 * 1024;
/** A change takes a moment: so often, and so long apart, another command's is waited for. */
const tries = 50;
const retryMs = 100;

/**
 * A file, alone in its directory. `name` of both, and of what it holds, for messages; `none`: its
 * content while it does not exist.
 */
export type Kept<S extends v.GenericSchema> = {
  readonly name: string;
  readonly shape: S;
  readonly none: v.InferOutput<S>;
};

function pathOf({ name }: { readonly name: string }, dataDir: string): string {
  return join(dataDir, name, `${name}.json`);
}

/** Reads a file. @throws config_invalid when it is damaged, file_unreadable */
export async function readKept<S extends v.GenericSchema>(kept: Kept<S>, { dataDir, stdin, signal }: Context) {
  const found = await readJson(pathOf(kept, dataDir), kept.shape, {
    limitBytes: keptLimitBytes,
    what: kept.name,
    hint: 'fix it or move it out of the way; nothing was changed',
    environment: { cwd: dataDir, stdin, signal },
  });
  return found ?? kept.none;
}

/**
 * Reads a file with JSON of a shape.
 * @param o.what it is, for the message when it is too large; `hint`: for one that is damaged
 * @returns undefined where there is none
 * @throws config_invalid when it is damaged, file_unreadable
 */
export async function readJson<S extends v.GenericSchema>(
  path: string,
  shape: S,
  o: { readonly limitBytes: number; readonly what: string; readonly hint: string; readonly environment: Reading },
): Promise<v.InferOutput<S> | undefined> {
  const bytes = await otherwise(readSmall(path, o), 'file_not_found', undefined);
  if (bytes === undefined) return undefined;
  try {
    return v.parse(shape, JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)));
  } catch (error) {
    throw new SealpinError('config_invalid', `${path} is damaged`, { hint: o.hint, cause: error });
  }
}

/**
 * Writes JSON of a shape, complete or not at all: nothing that `readJson` would refuse takes the
 * place of what was there.
 * @throws internal for that, file_unwritable, disk_full
 */
export async function writeJson<S extends v.GenericSchema>(
  path: string,
  shape: S,
  value: v.InferOutput<S>,
  o: { readonly limitBytes: number; readonly space?: number; readonly environment: Writing },
): Promise<void> {
  const bytes = new TextEncoder().encode(`${JSON.stringify(value, undefined, o.space)}\n`);
  if (bytes.length > o.limitBytes || !v.is(shape, value))
    throw new SealpinError('internal', `${path} was not written: it could not be read again`);
  await writeSmall(path, bytes, { force: true, environment: o.environment, fileOnly: true });
}

/**
 * Changes a file, while no other command does. What stays the same is not written, and a file that
 * would be empty is removed.
 * @param change gets the content as it is, and returns it as it becomes
 * @throws conflict while another command changes it for seconds; what `change` throws;
 * file_unwritable, disk_full
 */
export async function changeKept<S extends v.GenericSchema>(
  kept: Kept<S>,
  context: Context,
  change: (content: v.InferOutput<S>) => v.InferOutput<S> | Promise<v.InferOutput<S>>,
): Promise<void> {
  const path = pathOf(kept, context.dataDir);
  const held = await hold(path, kept.name, context);
  try {
    const before = await readKept(kept, context);
    const content = await change(before);
    if (isDeepStrictEqual(content, kept.none)) return await removeFolder(dirname(path), [basename(path)]);
    if (isDeepStrictEqual(content, before)) return;
    await writeJson(path, kept.shape, content, { limitBytes: keptLimitBytes, space: 2, environment: context });
  } finally {
    held.release();
  }
}

async function hold(path: string, what: string, { dataDir, signal }: Context): Promise<{ release(): void }> {
  for (let left = tries; left > 0; left -= 1) {
    const held = await holdFolder(dirname(path), dataDir);
    if (held !== undefined) return held;
    await sleep(retryMs, signal);
  }
  throw new SealpinError('conflict', `another command is changing the ${what}`, { hint: 'try again' });
}
