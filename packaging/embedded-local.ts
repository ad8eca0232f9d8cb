/** Files of the local service in the executable: `@sealpin/local` with its dependencies. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { constants, zstdCompressSync } from 'node:zlib';
import { embeddedRoot, type EmbeddedList } from '../cli/local/code/embedded.ts';
import { packageRoot } from '../cli/local/package-root.ts';

type Dependencies = Readonly<Record<string, string>>;
type PackageManifest = { readonly dependencies?: Dependencies; readonly optionalDependencies?: Dependencies };

/**
 * The files of a built `@sealpin/local` and of the packages that it needs, in an order that does
 * not change, and their bytes, compressed.
 * @param local the folder that `npm run packages` builds
 */
export async function embeddedFiles(local: string): Promise<{ list: EmbeddedList; bytes: Uint8Array }> {
  const root = packageRoot();
  const folders = new Map([[embeddedRoot, local]]);
  for (const found of await neededBy(local, root)) folders.set(relative(root, found), found);
  const files: { path: string; bytes: number; isProgram: boolean }[] = [];
  const contents: Buffer[] = [];
  for (const [to, from] of [...folders].toSorted(([a], [b]) => (a < b ? -1 : 1)))
    for (const path of await filesIn(from)) {
      const content = await readFile(join(from, path));
      const isProgram = ((await stat(join(from, path))).mode & 0o100) !== 0;
      files.push({ path: join(to, path), bytes: content.length, isProgram });
      contents.push(content);
    }
  const all = Buffer.concat(contents);
  const id = createHash('sha256').update(JSON.stringify(files)).update(all).digest('hex');
  const bytes = zstdCompressSync(all, { params: { [constants.ZSTD_c_compressionLevel]: 9 } });
  return { list: { id, files }, bytes };
}

/** The folders of all packages that one depends on, as Node finds them from the checkout. */
async function neededBy(local: string, root: string): Promise<Set<string>> {
  const found = new Set<string>();
  const follow = async (manifestPath: string, from: string): Promise<void> => {
    const manifest = JSON.parse(await readFile(manifestPath, 'utf8')) as PackageManifest;
    for (const name of Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies })) {
      const folder = folderOf(name, from);
      // Optional ones are for other platforms.
      if (folder === undefined || found.has(folder)) continue;
      found.add(folder);
      await follow(join(folder, 'package.json'), folder);
    }
  };
  await follow(join(local, 'package.json'), root);
  return found;
}

function folderOf(name: string, from: string): string | undefined {
  for (let folder = from; ; folder = dirname(folder)) {
    const path = join(folder, 'node_modules', name);
    if (existsSync(join(path, 'package.json'))) return path;
    if (folder === dirname(folder)) return undefined;
  }
}

/** The files of a package, from its folder, without those of packages inside it. */
export async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .filter((path) => !path.split('/').includes('node_modules'))
    .toSorted();
}
