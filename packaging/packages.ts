/**
 * The packages that are published: `sealpin`, the SDK and the command line in one bundle without
 * dependencies, and `@sealpin/local`, what a service on one's own machine needs besides.
 */
import { execFile } from 'node:child_process';
import { chmod, cp, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { build, type Metafile } from 'esbuild';
import { bundleCommand } from '../cli/startup/command-bundle.ts';
import { packageRoot } from '../cli/local/package-root.ts';
import { bundleOpener, packedOpener } from '../cli/local/code/opener-bundle.ts';
import { makePagesManifest, manifestFile, manifestText } from '../cli/local/code/pages-manifest.ts';
import { rescueFiles } from '../cli/local/code/shipped-file.ts';
import { packWorkerCode } from '../cli/local/code/worker-code.ts';
import { writeDeclarations } from './declarations.ts';
import { filesIn } from './embedded-local.ts';
import { licensesOf } from './licenses.ts';
import { manPages } from './man-page.ts';
import { localManifest, readManifest, sdkEntries, sdkManifest } from './manifest.ts';

const packagesRoot = packageRoot();

/** Documents that the README leads to, with their paths. */
const packageDocuments = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'LICENSE', 'docs'].concat(
  ['cli', 'client', 'shared', 'web', 'worker'].map((room) => `${room}/README.md`),
  'cli/manual',
);

/** Sources of the Worker with its pages, and of the guard in front of it. */
const workerSources = [
  'shared',
  'client',
  'web',
  'worker',
  'cli/local/guard.ts',
  'cli/local/origin.ts',
  'wrangler.toml',
  'LICENSE',
];

/** A package that was built. `bytes`: of all its files, as installed. */
export type BuiltPackage = { readonly name: string; readonly path: string; readonly bytes: number };

/**
 * Builds both packages.
 * @param folder where `sealpin/` and `local/` are written; what is there is removed
 */
export async function buildPackages(folder: string): Promise<readonly BuiltPackage[]> {
  await rm(folder, { recursive: true, force: true });
  return [await buildSealpin(join(folder, 'sealpin')), await buildLocal(join(folder, 'local'))];
}

/** Packs built packages as npm publishes them. @returns the paths of the tarballs */
export async function packInto(folder: string, built: readonly BuiltPackage[]): Promise<string[]> {
  return await Promise.all(
    built.map(async ({ path }) => {
      const flags = ['--silent', `--pack-destination=${folder}`];
      const { stdout } = await promisify(execFile)('npm', ['pack', ...flags], { cwd: path });
      return join(folder, stdout.trim());
    }),
  );
}

async function buildSealpin(path: string): Promise<BuiltPackage> {
  const leftOut = /\.(?:svg|png|json|py|go|sh|ts)$|\/(?:architecture|survival)\.md$/;
  await copy(packageDocuments, path, (source) => !leftOut.test(source));
  const bundles = [await bundleCommand(join(path, 'bin')), await bundleSdk(join(path, 'lib'))];
  await writeDeclarations(Object.values(sdkEntries), join(path, 'types'));
  const licenses = await licensesOf(bundles.flatMap(({ inputs }) => Object.keys(inputs)));
  await writeFile(join(path, 'THIRD-PARTY-LICENSES.txt'), licenses);
  const manifest = sdkManifest(await readManifest());
  await mkdir(join(path, 'man'));
  for (const [name, page] of await manPages(join(packagesRoot, 'cli'), manifest.version))
    await writeFile(join(path, `${name}.gz`), gzipSync(page));
  await addForOutsiders(path);
  return finishPackage(path, manifest);
}

/** Adds what works without Sealpin, and the list of pages, by which a service is checked. */
async function addForOutsiders(path: string): Promise<void> {
  await copy(rescueFiles, path, () => true);
  await writeFile(join(path, manifestFile), manifestText(await makePagesManifest()));
  await writeFile(join(path, packedOpener), brotliCompressSync(await bundleOpener()));
}

async function buildLocal(path: string): Promise<BuiltPackage> {
  await copy(workerSources, path, (source) => !/\/test$|\/tsconfig\.json$/.test(source));
  await cp(join(packagesRoot, 'packaging', 'local.md'), join(path, 'README.md'));
  await packWorkerCode(path);
  // The executable finds these here.
  await addForOutsiders(path);
  const sources = (await filesIn(path)).filter((file) => file.endsWith('.ts'));
  const texts = await Promise.all(sources.map((file) => readFile(join(path, file), 'utf8')));
  return finishPackage(path, localManifest(await readManifest(), texts));
}

/**
 * Splits at each module of the SDK, too: bundlers of programs leave whole files out, and of one
 * large file little.
 */
async function bundleSdk(outdir: string): Promise<Metafile> {
  const isModule = (name: string): boolean => name.endsWith('.ts') && name !== 'index.ts';
  const modules = (await readdir(join(packagesRoot, 'client'))).filter(isModule);
  const parts = ['shared/errors.ts', ...modules.map((name) => `client/${name}`)];
  const partEntries = Object.fromEntries(parts.map((path) => [`parts/${basename(path, '.ts')}`, path]));
  const built = await build({
    absWorkingDir: packagesRoot,
    entryPoints: { ...sdkEntries, ...partEntries },
    outdir,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2024',
    legalComments: 'none',
    logLevel: 'error',
    metafile: true,
  });
  return built.metafile;
}

/** Copies files and folders of the repository to the same paths below `to`. */
async function copy(paths: readonly string[], to: string, filter: (source: string) => boolean): Promise<void> {
  for (const path of paths) {
    await mkdir(dirname(join(to, path)), { recursive: true });
    await cp(join(packagesRoot, path), join(to, path), { recursive: true, filter });
  }
}

async function finishPackage(path: string, manifest: { readonly name: string }): Promise<BuiltPackage> {
  const files = (await readdir(path)).toSorted();
  await writeFile(join(path, 'package.json'), `${JSON.stringify({ ...manifest, files }, null, 2)}\n`);
  let bytes = 0;
  for (const file of await filesIn(path)) {
    const { size, mode } = await stat(join(path, file));
    bytes += size;
    // An archive has the modes, which follow from the umask of who builds it.
    await chmod(join(path, file), (mode & 0o100) === 0 ? 0o644 : 0o755);
  }
  return { name: manifest.name, path, bytes };
}
