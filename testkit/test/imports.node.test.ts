import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join, posix, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { importsOf } from '../near-tests.ts';

const root = resolve(import.meta.dirname, '../..');

/**
 * Imports that each room may have: other rooms, by their path, and npm packages. The most specific
 * room of a file wins. A room may always import itself. `docs/architecture.md` draws the same
 * arrows.
 */
const arrows: Record<string, { rooms: string[]; npm: RegExp; node?: true }> = {
  'shared/errors.ts': { rooms: ['shared/error-codes.ts'], npm: /^$/ },
  'shared/error-codes.ts': { rooms: [], npm: /^$/ },
  'shared/api.ts': { rooms: ['shared/errors.ts', 'shared/api'], npm: /^valibot$/ },
  'shared/api': { rooms: ['shared/filename.ts', 'shared/time.ts'], npm: /^valibot$/ },
  'shared/problem-object.ts': { rooms: ['shared/errors.ts'], npm: /^$/ },
  'shared/filename.ts': { rooms: ['shared/errors.ts'], npm: /^$/ },
  'shared/time.ts': { rooms: [], npm: /^$/ },
  'shared/loopback.ts': { rooms: [], npm: /^$/ },
  'shared/gateway-status.ts': { rooms: [], npm: /^$/ },
  'shared/tus-protocol.ts': { rooms: [], npm: /^$/ },
  'shared/backup-days.ts': { rooms: ['shared/errors.ts'], npm: /^$/ },
  'shared/streams': { rooms: ['shared/errors.ts'], npm: /^$/ },
  'shared/crypto': { rooms: ['shared/errors.ts', 'shared/streams'], npm: /^(@noble\/|@scure\/base$)/ },
  'shared/ipfs': { rooms: ['shared/errors.ts', 'shared/streams'], npm: /^(multiformats|@ipld\/|ipfs-unixfs)/ },
  'shared/link': {
    rooms: ['shared/errors.ts', 'shared/filename.ts', 'shared/streams', 'shared/crypto', 'shared/ipfs'],
    npm: /^valibot$/,
  },
  worker: {
    rooms: ['shared'],
    npm: /^(aws4fetch|hono|valibot|@valibot\/to-json-schema|cloudflare:workers|sealpin:web)($|\/)/,
  },
  client: { rooms: ['shared'], npm: /^$/ },
  cli: {
    rooms: ['shared', 'client'],
    npm: /^(citty|miniflare|esbuild|lean-qr|modern-tar|valibot)$|^@scure\/bip39(\/|$)|^@zxcvbn-ts\//,
    node: true,
  },
  web: { rooms: ['shared', 'client'], npm: /^lean-qr\/nano$/ },
  packaging: { rooms: ['shared', 'client', 'cli'], npm: /^(esbuild|marked|postject)$/, node: true },
  deploy: { rooms: ['shared', 'worker', 'client', 'cli'], npm: /^(valibot|wrangler)$/, node: true },
  'docs/clients': { rooms: [], npm: /^$/, node: true },
  // No row but those of tests and benches names these two.
  testkit: { rooms: ['shared', 'client', 'worker', 'cli'], npm: /./, node: true },
  bench: { rooms: ['shared', 'client', 'worker', 'cli', 'testkit'], npm: /./, node: true },
  simulation: { rooms: ['shared', 'worker', 'cli'], npm: /^esbuild$/, node: true },
  'packaging/test': { rooms: ['shared', 'client', 'cli', 'packaging', 'testkit'], npm: /./, node: true },
  'deploy/test': { rooms: ['shared', 'client', 'worker', 'cli', 'deploy', 'testkit'], npm: /./, node: true },
  'bench/test': { rooms: ['bench', 'testkit'], npm: /^vitest$/, node: true },
  'simulation/test': { rooms: ['simulation', 'worker', 'testkit'], npm: /./, node: true },
  'testkit/test': { rooms: ['testkit', 'shared'], npm: /^vitest$/, node: true },
  'shared/test': { rooms: ['shared', 'testkit'], npm: /./, node: true },
  'worker/test': { rooms: ['shared', 'worker', 'testkit'], npm: /./, node: true },
  'client/test': { rooms: ['shared', 'client', 'testkit'], npm: /./, node: true },
  'web/test': { rooms: ['shared', 'client', 'web', 'cli', 'testkit'], npm: /./, node: true },
  'cli/test': { rooms: ['shared', 'client', 'cli', 'testkit'], npm: /./, node: true },
};

/**
 * The floors of the rooms with many folders, the lowest first. What is on a floor, a folder or a
 * file, imports from lower floors only, types included.
 */
const floors: Record<string, string[][]> = {
  worker: [
    ['env.ts', 'leaf-memory.ts', 'log.ts', 'web.d.ts'],
    ['backends'],
    ['objects'],
    ['http'],
    ['auth'],
    ['upload', 'openapi'],
    ['routes'],
    ['index.ts'],
  ],
  'worker/objects': [
    ['sql.ts', 'alarm.ts', 'batches.ts', 'result.ts', 'with-context.ts'],
    ['columns.ts', 'storage-rows.ts'],
    ['metrics'],
    ['pin', 'share'],
    ['account'],
  ],
  'worker/objects/account': [
    ['tables.ts'],
    ['account-list.ts'],
    ['account-row.ts', 'account-settings.ts', 'event-rows.ts', 'outbox.ts'],
    ['keys'],
    ['files', 'shares', 'uploads', 'delivery.ts', 'kv-entries.ts'],
    ['account-context.ts'],
    ['account-gauges.ts', 'backup'],
    ['calls'],
    ['account.ts'],
  ],
  'worker/routes': [
    ['page.ts', 'route-parts.ts'],
    ['openapi.ts', 'web-pages.ts', 'files', 'uploads'],
    ['accounts', 'gateway', 'pages-alone.ts', 'shares'],
    ['operator'],
    ['table.ts'],
  ],
  cli: [
    ['argv.ts', 'errno.ts', 'timeouts.ts'],
    ['terminal'],
    ['context.ts', 'demo.ts'],
    ['command.ts', 'io'],
    ['help', 'keys', 'folder', 'local'],
    ['remote'],
    ['flags', 'fetch'],
    ['store'],
    ['files'],
    ['backup'],
    ['commands'],
    ['main.ts'],
    ['startup'],
    ['build.ts', 'index.ts', 'shipped.ts'],
  ],
  simulation: [['host'], ['platform'], ['world'], ['runner.ts'], ['shrink.ts'], ['index.ts']],
};

/** The most files of code in a folder. */
const mostFiles = 25;
/** Folders with one file a command, which may have more. */
const manyFiles = new Set(['cli/commands']);

/**
 * Imports that are no source files: the manifest, and the bundled Worker that the guard imports at
 * run time.
 */
const notSources = new Set(['package.json', 'cli/local/worker.js']);

const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '*.ts'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => path !== '' && path !== 'vitest.config.ts');

function roomOf(path: string): string {
  const room = Object.keys(arrows)
    .filter((each) => path === each || path.startsWith(`${each}/`))
    .toSorted((a, b) => b.length - a.length)[0];
  if (room === undefined) throw new Error(`${path} is in no room`);
  return room;
}

function targetOf(path: string, specifier: string): string {
  return posix.normalize(posix.join(dirname(path), specifier));
}

/** The import that breaks the rules, as text; undefined when it is allowed. */
function offence(path: string, specifier: string): string | undefined {
  const room = roomOf(path);
  const rule = arrows[room];
  if (rule === undefined) throw new Error(`no rule for ${room}`);
  if (specifier.startsWith('.')) {
    const target = targetOf(path, specifier);
    if (notSources.has(target)) return undefined;
    const to = roomOf(target);
    const allowed = to === room || rule.rooms.some((each) => to === each || (to.startsWith(`${each}/`) && !isTest(to)));
    return allowed ? undefined : `${path} → ${target}`;
  }
  if (specifier.startsWith('node:')) return rule.node ? undefined : `${path} → ${specifier}`;
  if (isBuiltin(specifier)) return `${path} → ${specifier} (write node:)`;
  return rule.npm.test(specifier) ? undefined : `${path} → ${specifier}`;
}

/**
 * The imports to the same floor or a higher one, as text: one for each room with floors that has
 * both files.
 */
function upwards(path: string, specifier: string): string[] {
  const target = specifier.startsWith('.') ? targetOf(path, specifier) : '';
  if (notSources.has(target)) return [];
  return Object.keys(floors).flatMap((room) => {
    const [from, to] = [path, target].map((each) => partOf(room, each));
    if (from === undefined || to === undefined || from === to) return [];
    return floorOf(room, to) < floorOf(room, from) ? [] : [`${path} → ${target}`];
  });
}

/**
 * The folder or file right below a room to which a source belongs; undefined in other rooms, and
 * for tests.
 */
function partOf(room: string, path: string): string | undefined {
  return path.startsWith(`${room}/`) && !isTest(path) ? path.slice(room.length + 1).split('/')[0] : undefined;
}

function floorOf(room: string, part: string): number {
  const floor = floors[room]?.findIndex((parts) => parts.includes(part)) ?? -1;
  if (floor < 0) throw new Error(`${room}/${part} is on no floor: add it to the floors of ${room}`);
  return floor;
}

function isTest(path: string): boolean {
  return path.includes('/test');
}

/** Files that have the same name, as `nameOf` gives it, but for those that join a folder. */
function twinsOf(paths: readonly string[], nameOf: (path: string) => string): string[][] {
  const byName = Map.groupBy(
    paths.filter((path) => posix.basename(path) !== 'index.ts'),
    nameOf,
  );
  return [...byName.values()].filter((twins) => twins.length > 1);
}

/** The circles of a graph, each as the path that closes it. */
function circlesOf(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const done = new Set<string>();
  const circles: string[][] = [];
  const visit = (node: string, trail: readonly string[]): void => {
    const at = trail.indexOf(node);
    if (at >= 0) circles.push([...trail.slice(at), node]);
    if (at >= 0 || done.has(node)) return;
    for (const next of graph.get(node) ?? []) visit(next, [...trail, node]);
    done.add(node);
  };
  for (const node of graph.keys()) visit(node, []);
  return circles;
}

/** The name of the file of a class. */
function kebab(name: string): string {
  return name.replaceAll(/(?<=[a-z0-9])[A-Z]/g, '-$&').toLowerCase();
}

describe('the rooms of the house', () => {
  const sources = files.filter((path) => !isTest(path) && !/^(?:testkit|bench)\/|\.d\.ts$/.test(path));
  const imports = files.flatMap((path) =>
    importsOf(readFileSync(join(root, path), 'utf8')).map((specifier) => ({ path, specifier })),
  );

  test('import only along the arrows, tests and benches included', () => {
    expect(files.length).toBeGreaterThan(200);
    expect(imports.flatMap(({ path, specifier }) => offence(path, specifier) ?? [])).toEqual([]);
  });

  test('import nothing from a higher floor', () => {
    expect(imports.flatMap(({ path, specifier }) => upwards(path, specifier))).toEqual([]);
  });

  const parts = (room: string) => {
    const graph = new Map<string, string[]>();
    for (const { path, specifier } of imports) {
      const [from, to] = [path, specifier.startsWith('.') ? targetOf(path, specifier) : ''].map((each) =>
        partOf(room, each),
      );
      if (from !== undefined && to !== undefined && from !== to) graph.set(from, [...(graph.get(from) ?? []), to]);
    }
    return graph;
  };

  test.each([...new Set(sources.map((path) => path.split('/')[0] ?? '')), 'bench', 'testkit'])(
    'have no circle between the folders and files right below them: %s',
    (room) => {
      expect(circlesOf(parts(room))).toEqual([]);
    },
  );

  test.each(Object.entries(floors))('have every part on one floor: %s', (room, parts) => {
    const found = new Set(files.flatMap((path) => partOf(room, path) ?? []));
    expect(parts.flat().toSorted()).toEqual([...found].toSorted());
  });

  test('import nothing in a circle', () => {
    const graph = new Map<string, string[]>(files.map((path) => [path, []]));
    for (const { path, specifier } of imports) {
      if (specifier.startsWith('.')) graph.get(path)?.push(targetOf(path, specifier));
    }
    expect(circlesOf(graph)).toEqual([]);
  });

  test('have files with names of their own', () => {
    expect(twinsOf(sources, (path) => posix.basename(path))).toEqual([]);
  });

  // What clients do in the simulation is named like the operation.
  test('export no name from more than two files, but `command`', () => {
    const declaration = /^export (?:async )?(?:abstract )?(?:function\*?|const|class|interface|type|let) (\w+)/gm;
    const exported = sources.flatMap((path) => {
      const names = readFileSync(join(root, path), 'utf8').matchAll(declaration);
      return path.startsWith('simulation/') ? [] : [...new Set(Array.from(names, ([, name = '']) => name))];
    });
    const many = [...Map.groupBy(exported, (name) => name)].filter(([, { length }]) => length > 2);
    expect(many.map(([name]) => name)).toEqual(['command']);
  });

  // An error is where it is thrown.
  test('have classes with the names of their files: XRows of rows, XCalls for calls by RPC', () => {
    const classes = sources.flatMap((path) =>
      Array.from(
        readFileSync(join(root, path), 'utf8').matchAll(
          /^export (?:abstract )?class (\w+)(?:<.*?>)?(?: extends (\w+))?/gm,
        ),
        ([, name = '', base = '']) => ({ path, name, base }),
      ),
    );
    expect(classes.length).toBeGreaterThan(40);
    const misnamed = classes.filter(
      ({ path, name, base }) =>
        (!base.endsWith('Error') && `${kebab(name)}.ts` !== posix.basename(path)) ||
        (/^(?:RpcTarget|\w+Calls)$/.test(base) && !name.endsWith('Calls')),
    );
    expect(misnamed).toEqual([]);
  });

  // A test and a suite are named like what they test.
  test('have helpers of tests with names of their own in their room', () => {
    const helpers = files.filter((path) => !path.endsWith('.test.ts') && !path.includes('/suites/'));
    expect(twinsOf(helpers, (path) => `${path.split('/')[0]} ${posix.basename(path)}`)).toEqual([]);
  });

  test(`have at most ${mostFiles} files in a folder`, () => {
    const folders = Map.groupBy(files, (path) => dirname(path));
    const full = [...folders].filter(([folder, { length }]) => length > mostFiles && !manyFiles.has(folder));
    expect(full.map(([folder, { length }]) => `${folder}: ${length}`)).toEqual([]);
  });

  test('have at most 400 lines', () => {
    const long = files
      .map((path) => ({ path, lines: readFileSync(join(root, path), 'utf8').split('\n').length - 1 }))
      .filter(({ lines }) => lines > 400);
    expect(long).toEqual([]);
  });

  test('construct Miniflare in one file', () => {
    const places = files.filter((path) => /\bnew Miniflare\(/.test(readFileSync(join(root, path), 'utf8')));
    expect(places).toEqual(['cli/local/miniflare.ts']);
  });

  test('have exactly one workerd in the lock file', () => {
    const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, unknown>;
    };
    expect(Object.keys(lock.packages).filter((name) => name.endsWith('node_modules/workerd'))).toHaveLength(1);
  });
});

describe('the checks themselves', () => {
  test('report an arrow that is not allowed', () => {
    expect(offence('worker/index.ts', '../cli/index.ts')).toBe('worker/index.ts → cli/index.ts');
    expect(offence('cli/index.ts', '../worker/index.ts')).toBe('cli/index.ts → worker/index.ts');
    expect(offence('shared/crypto/header.ts', '../ipfs/cid.ts')).toBe('shared/crypto/header.ts → shared/ipfs/cid.ts');
    expect(offence('shared/crypto/header.ts', 'node:crypto')).toBe('shared/crypto/header.ts → node:crypto');
    expect(offence('worker/index.ts', 'miniflare')).toBe('worker/index.ts → miniflare');
    expect(offence('cli/main.ts', '../testkit/workerd.ts')).toBe('cli/main.ts → testkit/workerd.ts');
    expect(offence('worker/index.ts', '../bench/figure.ts')).toBe('worker/index.ts → bench/figure.ts');
    expect(offence('testkit/service.ts', '../bench/figure.ts')).toBe('testkit/service.ts → bench/figure.ts');
    expect(offence('cli/test/a.ts', '../../bench/figure.ts')).toBe('cli/test/a.ts → bench/figure.ts');
    expect(offence('worker/test/a.ts', '../service.ts')).toBeUndefined();
    expect(offence('bench/ipfs.bench.ts', '../testkit/kubo.ts')).toBeUndefined();
    expect(offence('worker/test/a.ts', '../../cli/main.ts')).toBe('worker/test/a.ts → cli/main.ts');
    expect(offence('shared/test/a.ts', '../../cli/test/b.ts')).toBe('shared/test/a.ts → cli/test/b.ts');
    expect(offence('cli/main.ts', './test/pty.ts')).toBe('cli/main.ts → cli/test/pty.ts');
  });

  test('report an arrow up, and one to the same floor', () => {
    expect(upwards('worker/http/app.ts', '../upload/upload-body.ts')).toEqual([
      'worker/http/app.ts → worker/upload/upload-body.ts',
    ]);
    expect(upwards('worker/upload/upload-body.ts', '../openapi/tags.ts')).toHaveLength(1);
    expect(upwards('worker/objects/pin/pin.ts', '../account/account.ts')).toHaveLength(1);
    expect(upwards('cli/context.ts', './command.ts')).toHaveLength(1);
    expect(upwards('cli/command.ts', './context.ts')).toEqual([]);
    expect(upwards('worker/upload/upload-body.ts', './semaphore.ts')).toEqual([]);
    expect(upwards('worker/upload/upload-body.ts', '../../shared/errors.ts')).toEqual([]);
    expect(upwards('cli/test/a.ts', '../main.ts')).toEqual([]);
    expect(() => upwards('worker/unknown/a.ts', '../env.ts')).toThrow('worker/unknown is on no floor');
  });

  test('find files of one name', () => {
    const paths = ['a/x.ts', 'a/b/x.ts', 'a/y.ts', 'a/index.ts', 'a/b/index.ts'];
    expect(twinsOf(paths, (path) => posix.basename(path))).toEqual([['a/x.ts', 'a/b/x.ts']]);
  });

  test('find every form of import', () => {
    const source =
      "import type { A } from '../a.ts';\nconst b = await import('./b.ts');\nexport * from './c.ts';\nimport './d.ts';";
    expect(importsOf(source)).toEqual(['../a.ts', './c.ts', './d.ts', './b.ts']);
  });

  test('find a circle, also of one file', () => {
    const graph = new Map([
      ['a', ['b']],
      ['b', ['c']],
      ['c', ['b']],
      ['d', ['d', 'a']],
    ]);
    expect(circlesOf(graph)).toEqual([
      ['b', 'c', 'b'],
      ['d', 'd'],
    ]);
    expect(circlesOf(new Map([['a', ['b']]]))).toEqual([]);
  });
});
