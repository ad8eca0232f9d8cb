/** The licenses of what is bundled, which most of them ask to be passed on. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageRoot } from '../cli/local/package-root.ts';

/**
 * The names, versions and licenses of the packages that some files belong to, as one text.
 * @param inputs paths from the root of the repository; those outside node_modules are left out
 * @throws TypeError for a package that names no license
 */
export async function licensesOf(inputs: readonly string[]): Promise<string> {
  const folders = inputs.flatMap((path) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []);
  const texts = Array.from(new Set(folders))
    .toSorted()
    .map(async (folder) => {
      const path = join(packageRoot(), folder);
      const manifest = JSON.parse(await readFile(join(path, 'package.json'), 'utf8')) as Record<string, string>;
      const { name, version, license } = manifest;
      const files = (await readdir(path)).filter((file) => /^licen[cs]e/i.test(file));
      if (license === undefined) throw new TypeError(`${folder} names no license`);
      const licenses = await Promise.all(files.map((file) => readFile(join(path, file), 'utf8')));
      return `${[`${name} ${version} (${license})`, ...licenses.map((text) => text.trim())].join('\n\n')}\n`;
    });
  return (await Promise.all(texts)).join(`\n${'-'.repeat(80)}\n\n`);
}
