/** Type declarations for the SDK that name no package, so that its users install none. */
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { packageRoot } from '../cli/local/package-root.ts';

/** Packages whose types appear in ours, and their one file of declarations. */
const typePackages: Readonly<Record<string, string>> = { valibot: 'valibot/dist/index.d.mts' };

/** Comments and indentation of these packages: nobody who uses ours writes their shapes. */
const forReaders = /^[ \t]*(?:\/\*\*[^]*?\*\/\r?\n)?[ \t]*/gm;

/** Imports of a declaration; the first group is the specifier. */
const imports = /(?:\bfrom |\bimport\()['"]([^'"]+)['"]/g;

/**
 * Writes the declarations of some sources and of all whose types they name, in the same folders as
 * in the repository.
 * @param entries paths from the root of the repository
 * @param outDir is created
 */
export async function writeDeclarations(entries: readonly string[], outDir: string): Promise<void> {
  const root = packageRoot();
  await mkdir(outDir, { recursive: true });
  const project = join(outDir, 'tsconfig.json');
  const compilerOptions = {
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    outDir,
    rootDir: root,
    // What a check has compiled would count as written here, too.
    incremental: false,
    tsBuildInfoFile: null,
  };
  const files = entries.map((entry) => join(root, entry));
  const config = { extends: join(root, 'client/tsconfig.json'), compilerOptions, files, include: [] };
  await writeFile(project, JSON.stringify(config));
  await promisify(execFile)(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', project]);
  await rm(project);
  const written = (await readdir(outDir, { recursive: true })).filter((path) => path.endsWith('.d.ts'));
  const needed = new Set(entries.map((entry) => entry.replace(/\.ts$/, '.d.ts')));
  for (const path of needed) {
    const text = withRelativeImports(await readFile(join(outDir, path), 'utf8'), path);
    await writeFile(join(outDir, path), text);
    for (const [, target = ''] of text.matchAll(imports))
      if (!target.includes('/npm/')) needed.add(join(dirname(path), target.replace(/\.js$/, '.d.ts')));
  }
  await Promise.all(written.filter((path) => !needed.has(path)).map((path) => rm(join(outDir, path))));
  await mkdir(join(outDir, 'npm'));
  for (const [name, path] of Object.entries(typePackages)) {
    const text = await readFile(join(root, 'node_modules', path), 'utf8');
    await writeFile(join(outDir, 'npm', `${name}.d.ts`), text.replace(forReaders, ''));
  }
}

/**
 * Names each import by the path of its JavaScript file, as Node and TypeScript expect in a package.
 * @param path of the file with this text, from the folder of all declarations
 * @throws TypeError for a package whose types are not at hand
 */
export function withRelativeImports(text: string, path: string): string {
  return text.replace(imports, (found, specifier: string) => {
    if (!specifier.startsWith('.') && !Object.hasOwn(typePackages, specifier))
      throw new TypeError(`${path} names the types of ${specifier}`);
    const target = specifier.startsWith('.')
      ? specifier.replace(/\.ts$/, '.js')
      : relative(dirname(path), join('npm', `${specifier}.js`));
    return found.replace(specifier, target.startsWith('.') ? target : `./${target}`);
  });
}
