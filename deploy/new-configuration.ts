/** A configuration for a further service, which shares only the backends with the first one. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { failWrite } from '../cli/errno.ts';
import { SealpinError } from '../shared/errors.ts';
import { readConfiguration } from './configuration.ts';
import type { DeployOptions } from './options.ts';

/**
 * Makes the file that `--config` names, where it does not exist, of the `wrangler.toml` beside it.
 * What would make both services one is not copied: the ID of the KV namespace, domains,
 * `SERVICE_ID`, the names of the rate limits.
 * @returns whether it was made @throws usage without a name of its own, or without a file to copy
 */
export async function newConfiguration({ config, name }: Pick<DeployOptions, 'config' | 'name'>): Promise<boolean> {
  if (existsSync(config)) return false;
  const original = join(dirname(config), 'wrangler.toml');
  if (!existsSync(original))
    throw new SealpinError('usage', `${config} does not exist`, {
      hint: 'name a file beside the wrangler.toml of the checkout, whose copy it becomes',
    });
  if (name === undefined || name === readConfiguration(original).name)
    throw new SealpinError('usage', `${config} does not exist, and a further service needs a name of its own`, {
      hint: 'add --name, for example --name sealpin-staging',
    });
  const text = copyFor(name, await readFile(original, 'utf8'));
  await writeFile(config, text, { flag: 'wx' }).catch(failWrite(config));
  return true;
}

function copyFor(name: string, text: string): string {
  // Workers of a Cloudflare account that name the same namespace share its counters.
  let namespace = createHash('sha256').update(name).digest().readUInt16BE() * 1000;
  return text
    .replace(/^name = .*$/m, () => `name = ${JSON.stringify(name)}`)
    .replaceAll(/^id = .*\n/gm, '')
    .replaceAll(/^SERVICE_ID = .*\n/gm, '')
    .replaceAll(/^\[\[routes\]\]\n(?:[a-z_]+ = .*\n)*\n*/gm, '')
    .replaceAll(/^namespace_id = .*$/gm, () => `namespace_id = "${(namespace += 1)}"`);
}
