/**
 * Writes into the `package.json` of each folder that is named where the release comes from; the
 * release workflow runs it.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { originOf } from './release-manifest.ts';

for (const folder of process.argv.slice(2)) {
  const path = join(folder, 'package.json');
  const manifest = JSON.parse(await readFile(path, 'utf8')) as { version: string };
  await writeFile(path, `${JSON.stringify({ ...manifest, ...originOf(process.env, manifest.version) }, null, 2)}\n`);
}
