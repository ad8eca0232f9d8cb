/** The `package.json` of each published package, from that of the repository. */
import { headings } from '../cli/commands/index.ts';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageRoot } from '../cli/local/package-root.ts';

/** Part of the repository's `package.json` that goes into the packages. */
export type PackageJson = {
  readonly version: string;
  readonly description: string;
  readonly keywords: readonly string[];
  readonly license: string;
  readonly engines: { readonly node: string };
  readonly dependencies: Readonly<Record<string, string>>;
};

/** The entries of the SDK: the name of the file in `lib/`, and the source. */
export const sdkEntries = {
  index: 'client/index.ts',
  crypto: 'shared/crypto/index.ts',
  ipfs: 'shared/ipfs/index.ts',
} as const;

/** Pages of the manual beside that of the commands: `cli/manual/<name>.md`. */
export const manualPages = ['sending', 'my-things', 'schedule', 'with-age', 'after-a-year'] as const;
/** Paths of the pages for man in `sealpin`. */
export const manPaths: readonly string[] = [
  'man/sealpin.1',
  ...headings.map(({ name }) => `man/sealpin-${name.replace(' ', '-')}.1`),
  ...manualPages.map((name) => `man/sealpin-${name}.7`),
];

/** The repository's own. */
export async function readManifest(): Promise<PackageJson> {
  return JSON.parse(await readFile(join(packageRoot(), 'package.json'), 'utf8')) as PackageJson;
}

/** Of `sealpin`. It has no dependencies: everything is in its bundles. */
export function sdkManifest({ version, description, keywords, license, engines }: PackageJson) {
  const exports = Object.entries(sdkEntries).map(([name, source]) => [
    name === 'index' ? '.' : `./${name}`,
    { types: `./types/${source.replace(/\.ts$/, '.d.ts')}`, default: `./lib/${name}.js` },
  ]);
  return {
    name: 'sealpin',
    version,
    description,
    keywords,
    license,
    type: 'module',
    sideEffects: false,
    bin: { sealpin: 'bin/sealpin.cjs' },
    man: manPaths.map((path) => `${path}.gz`), // npm installs the pages of a list only
    exports: { ...Object.fromEntries(exports), './package.json': './package.json' },
    engines,
  };
}

/** Of `@sealpin/local`. @param sources texts that name the packages on which it depends */
export function localManifest({ version, keywords, license, engines, dependencies }: PackageJson, sources: string[]) {
  const tools = ['esbuild', 'miniflare'];
  const isNeeded = (name: string): boolean =>
    tools.includes(name) || sources.some((text) => text.includes(`from '${name}'`) || text.includes(`from '${name}/`));
  return {
    name: '@sealpin/local',
    version,
    description:
      "What sealpin needs to run its service on one's own machine: the Worker's source, Miniflare and esbuild.",
    keywords,
    license,
    type: 'module',
    sideEffects: false,
    exports: { './package.json': './package.json' },
    engines,
    dependencies: Object.fromEntries(Object.entries(dependencies).filter(([name]) => isNeeded(name))),
    publishConfig: { access: 'public' },
  };
}
