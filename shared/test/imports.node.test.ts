import { readFileSync, readdirSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { describe, expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '../..');

/** The arrows of the house: who may import which rooms and which npm packages. The most specific room wins. */
const arrows: Record<string, { rooms: string[]; npm: RegExp; node?: true }> = {
  'shared/errors.ts': { rooms: [], npm: /^$/ },
  'shared/api.ts': { rooms: ['shared/errors.ts'], npm: /^valibot$/ },
  'shared/crypto': { rooms: ['shared/errors.ts'], npm: /^(@noble\/|@scure\/base$)/ },
  'shared/ipfs': { rooms: ['shared/errors.ts'], npm: /^(multiformats|@ipld\/|ipfs-unixfs)/ },
  worker: { rooms: ['shared'], npm: /^(hono|valibot|cloudflare:workers)($|\/)/ },
  cli: { rooms: ['shared'], npm: /^(citty|miniflare|esbuild)$|^(@scure\/bip39|@zxcvbn-ts)\//, node: true },
  // What only tests and benches may reach. They may use any package; sources import none of them.
  'shared/test': { rooms: ['shared', 'cli/crypto.ts'], npm: /./, node: true },
  'worker/test': { rooms: ['worker', 'shared', 'cli/local'], npm: /./, node: true },
  'cli/test': {
    rooms: ['cli', 'shared', 'shared/test', 'cli/bench', 'worker/test/pinning/real.ts'],
    npm: /./,
    node: true,
  },
  'shared/bench': {
    rooms: [
      'shared',
      'shared/test',
      'cli/crypto.ts',
      'cli/local/process.ts',
      'cli/bench',
      'worker/test/pinning/real.ts',
    ],
    npm: /./,
    node: true,
  },
  'worker/bench': { rooms: ['worker', 'shared', 'worker/test', 'cli/bench'], npm: /./, node: true },
  'cli/bench': { rooms: ['cli', 'shared', 'worker/test/pinning/real.ts'], npm: /./, node: true },
};

function sources(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => path.endsWith('.ts') && !/(^|\/)(dist|node_modules)\//.test(path.split(sep).join('/')));
}

function roomOf(path: string): string {
  const name = path.split(sep).join('/');
  const room = Object.keys(arrows)
    .filter((room) => name === room || name.startsWith(`${room}/`))
    .sort((a, b) => b.length - a.length)[0];
  if (room === undefined) throw new Error(`${name} is in no room`);
  return room;
}

/** What a source imports, types and dynamic imports included. Comments cannot hide one: they may only add. */
function importsOf(source: string): string[] {
  const forms = [
    /^\s*(?:import|export)\b[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]/gm,
    /^\s*import\s*['"]([^'"]+)['"]/gm,
    /\bimport\(\s*['"]([^'"]+)['"]/g,
  ];
  return forms.flatMap((form) => [...source.matchAll(form)].map((match) => match[1]!));
}

/** The import that breaks the house, in words; undefined when it is allowed. */
function offence(path: string, specifier: string): string | undefined {
  const room = roomOf(path);
  const rule = arrows[room]!;
  if (specifier.startsWith('.')) {
    const target = relative(root, resolve(root, dirname(path), specifier))
      .split(sep)
      .join('/');
    if (target === 'package.json' || target === 'cli/local/worker.js') return undefined;
    const to = roomOf(target);
    // A test or bench folder is not part of the room that it lies in: it has to be named.
    const apart = /\/(test|bench)$/.test(to);
    const allows = (allowed: string): boolean =>
      target === allowed || (apart ? to === allowed : target.startsWith(`${allowed}/`));
    return to === room || rule.rooms.some(allows) ? undefined : `${path} → ${target}`;
  }
  if (specifier.startsWith('node:')) return rule.node ? undefined : `${path} → ${specifier}`;
  if (isBuiltin(specifier)) return `${path} → ${specifier} (write node:)`;
  return rule.npm.test(specifier) ? undefined : `${path} → ${specifier}`;
}

describe('the rooms of the house', () => {
  const files = ['shared', 'worker', 'cli'].flatMap(sources);

  test('import only along the arrows', () => {
    expect(files.length).toBeGreaterThan(200);
    const offences = files.flatMap((path) =>
      importsOf(readFileSync(join(root, path), 'utf8')).map((specifier) => offence(path, specifier)),
    );
    expect(offences.filter((text) => text !== undefined)).toEqual([]);
  });

  test('find a wrong arrow', () => {
    expect(offence('worker/index.ts', '../cli/index.ts')).toBe('worker/index.ts → cli/index.ts');
    expect(offence('cli/index.ts', '../worker/index.ts')).toBe('cli/index.ts → worker/index.ts');
    expect(offence('shared/crypto/keys.ts', '../ipfs/cid.ts')).toBe('shared/crypto/keys.ts → shared/ipfs/cid.ts');
    expect(offence('shared/crypto/keys.ts', 'node:crypto')).toBe('shared/crypto/keys.ts → node:crypto');
    expect(offence('worker/index.ts', 'miniflare')).toBe('worker/index.ts → miniflare');
    expect(offence('cli/main.ts', './test/world.ts')).toBe('cli/main.ts → cli/test/world.ts');
    expect(offence('worker/index.ts', '../shared/test/crypto/programs.ts')).toMatch(/^worker\/index.ts → shared\/test/);
    expect(offence('shared/test/a.test.ts', '../../cli/main.ts')).toBe('shared/test/a.test.ts → cli/main.ts');
    expect(offence('shared/test/a.test.ts', '../../cli/crypto.ts')).toBeUndefined();
    expect(
      importsOf(
        "import type { A } from '../a.ts';\nconst b = await import('./b.ts');\nexport * from './c.ts';\nimport './d.ts';",
      ),
    ).toEqual(['../a.ts', './c.ts', './d.ts', './b.ts']);
  });

  test('hold no source over 450 lines, and no test or bench over 500', () => {
    const long = files
      .map((path) => [path, readFileSync(join(root, path), 'utf8').split('\n').length] as const)
      .filter(([path, lines]) => lines > (/\/(test|bench)$/.test(roomOf(path)) ? 500 : 450));
    expect(long).toEqual([]);
  });

  test('have exactly one workerd in the lock file', () => {
    const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, unknown>;
    };
    expect(Object.keys(lock.packages).filter((name) => name.endsWith('node_modules/workerd'))).toHaveLength(1);
  });
});
