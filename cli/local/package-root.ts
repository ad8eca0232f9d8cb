/** Location of the Worker's source, and of the packages that build and run it. */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import packageJson from '../../package.json' with { type: 'json' };
import { SealpinError } from '../../shared/errors.ts';
import { embeddedLocal } from './code/embedded.ts';

/** Package with what the command line leaves out: 220 MB that only a local service needs. */
const localPackage = '@sealpin/local';

/**
 * The folder that holds package.json, wrangler.toml, worker/ and shared/: the checkout, the
 * installed `@sealpin/local`, or the one in the executable.
 * @throws not_installed when there is no `@sealpin/local`, or one of another version
 */
export function packageRoot(): string {
  const embedded = embeddedLocal();
  if (embedded !== undefined) return embedded;
  const from = import.meta.dirname;
  for (let dir = from; dir !== dirname(dir); dir = dirname(dir)) {
    if (existsSync(join(dir, 'wrangler.toml')) && manifestOf(dir)?.name === 'sealpin') return dir;
  }
  const { version } = packageJson;
  const hint = `install it: npm i -g ${localPackage}@${version}`;
  const dir = installedIn(from);
  if (dir === undefined)
    throw new SealpinError('not_installed', `a service on this machine needs the package ${localPackage}`, { hint });
  const found = manifestOf(dir)?.version;
  if (found !== version)
    throw new SealpinError('not_installed', `${localPackage} is ${found}, and sealpin is ${version}`, { hint });
  return dir;
}

/** Loads a package that the command line does not bring itself, such as `esbuild`. */
export function requireLocal(name: 'esbuild' | 'miniflare'): unknown {
  return createRequire(join(packageRoot(), 'package.json'))(name);
}

function manifestOf(dir: string): { readonly name?: string; readonly version?: string } | undefined {
  const path = join(dir, 'package.json');
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as { name?: string; version?: string }) : undefined;
}

/** The folder from which Node would load `@sealpin/local`; undefined when it is not installed. */
function installedIn(from: string): string | undefined {
  try {
    return dirname(createRequire(join(from, 'any.js')).resolve(`${localPackage}/package.json`));
  } catch {
    return undefined;
  }
}
