/**
 * What `pages verify` finds: every change that all readers get, and what one reader in ten gets.
 */
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { brotliCompressSync, constants, gunzipSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { faultyProxy, type Fault } from '../../../testkit/faulty-proxy.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { makePagesManifest, manifestText, type PagesManifest } from '../../local/code/pages-manifest.ts';
import { checkPages, type AskPage, type PageResponse } from '../../remote/pages-check.ts';
import { run, temporaryDirectory, type Ran } from '../environment.ts';
import { localService } from '../local.ts';

const local = localService();
let directory: string;
let manifest: PagesManifest;
/** What the real service sends, by path: the encodings are made here. */
const bodies = new Map<string, Buffer>();
beforeEach(async () => {
  directory = await temporaryDirectory();
});
beforeAll(async () => {
  manifest = await makePagesManifest();
  for (const { path } of manifest.pages)
    bodies.set(path, Buffer.from(await (await fetch(new URL(`/${path}`, local.url))).arrayBuffer()));
});

const compress = {
  gzip: (bytes: Buffer) => gzipSync(bytes, { level: 1 }),
  br: (bytes: Buffer) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
  zstd: (bytes: Buffer) => zstdCompressSync(bytes),
};
const encodingFor = (accepted = ''): keyof typeof compress | undefined =>
  (['br', 'zstd', 'gzip'] as const).find((name) => accepted.split(', ').includes(name));

/** A service that sends the pages of the manifest, but for what `change` makes of a response. */
function serving(
  change: (path: string, plain: PageResponse, headers: Record<string, string>) => PageResponse,
): AskPage {
  return async (path, headers) => {
    const page = present(manifest.pages.find((each) => each.path === path));
    const plain = { status: 200, headers: page.headers, bytes: present(bodies.get(path)) };
    const changed = change(path, plain, headers);
    const encoding = encodingFor(headers['accept-encoding']);
    if (changed !== plain || encoding === undefined) return changed;
    return {
      ...changed,
      headers: { ...changed.headers, 'content-encoding': encoding },
      bytes: compressed(path, encoding),
    };
  };
}

const kept = new Map<string, Buffer>();
function compressed(path: string, encoding: keyof typeof compress): Buffer {
  const made = kept.get(encoding + path) ?? compress[encoding](present(bodies.get(path)));
  kept.set(encoding + path, made);
  return made;
}

/** Numbers from 0 to 1 that are the same in each run (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

type Change = { readonly name: string; readonly path: string; readonly make: Parameters<typeof serving>[0] };

/** 100 changes, drawn again from each kind for each path. */
function generated(): Change[] {
  const random = randomFrom(35);
  const text = (bytes: Uint8Array, edit: (before: string) => string) =>
    Buffer.from(edit(Buffer.from(bytes).toString('utf8')));
  const isPage = (path: string) =>
    present(manifest.pages.find((each) => each.path === path)).headers['content-type']?.startsWith('text/html') ===
    true;
  const kinds: Record<string, { only?: (path: string) => boolean; make: (path: string) => Change['make'] }> = {
    'a byte': {
      make: () => {
        const place = random();
        return (_, plain) => {
          const bytes = Buffer.from(plain.bytes);
          const at = Math.floor(place * bytes.length);
          bytes[at] = itemOf(bytes, at) ^ 1;
          return { ...plain, bytes };
        };
      },
    },
    'a script more': {
      make: () => (_, plain) => ({
        ...plain,
        bytes: Buffer.concat([plain.bytes, Buffer.from(';fetch("/x?"+location.hash)')]),
      }),
    },
    'another asset': {
      only: isPage,
      make: () => (_, plain) => ({
        ...plain,
        bytes: text(plain.bytes, (html) => html.replace('</head>', '<script src="web/x.js"></script></head>')),
      }),
    },
    'a weaker policy': {
      make: (path) => {
        const names = Object.keys(present(manifest.pages.find((each) => each.path === path)).headers);
        const name = itemOf(names, Math.floor(random() * names.length));
        return (_, plain) => ({
          ...plain,
          headers: { ...plain.headers, [name]: name.endsWith('policy') ? 'default-src *' : 'text/x' },
        });
      },
    },
    'no policy': {
      make: () => (_, plain) => ({
        ...plain,
        headers: Object.fromEntries(
          Object.entries(plain.headers).filter(([name]) => name !== 'content-security-policy'),
        ),
      }),
    },
    'a header more': {
      make: () => {
        const name = itemOf(['link', 'refresh', 'service-worker-allowed', 'sourcemap'], Math.floor(random() * 4));
        return (_, plain) => ({ ...plain, headers: { ...plain.headers, [name]: '0; url=https://example.org/' } });
      },
    },
    'a redirect': {
      make: () => (_, plain) => ({ ...plain, status: 302, headers: { location: 'https://example.org/' } }),
    },
    'one encoding': {
      make: () => {
        const encoding = itemOf(['gzip', 'br', 'zstd'] as const, Math.floor(random() * 3));
        return (_, plain, headers) =>
          encodingFor(headers['accept-encoding']) === encoding
            ? {
                ...plain,
                headers: { ...plain.headers, 'content-encoding': encoding },
                bytes: compress[encoding](Buffer.concat([plain.bytes, Buffer.from(' ')])),
              }
            : plain;
      },
    },
    'one kind of browser': {
      make: () => (_, plain, headers) =>
        headers['sec-fetch-dest'] === undefined
          ? plain
          : { ...plain, bytes: Buffer.concat([plain.bytes, Buffer.from(' ')]) },
    },
  };
  const all: Change[] = [];
  for (let at = 0; all.length < 100; at += 1)
    for (const [kind, { only = () => true, make }] of Object.entries(kinds)) {
      const { path } = itemOf(manifest.pages, at % manifest.pages.length);
      if (only(path) && all.length < 100) all.push({ name: `${kind} at /${path}`, path, make: make(path) });
    }
  return all;
}

test('pages that are as they should be are found so, in every encoding', async () => {
  const checked = await checkPages(
    manifest,
    serving((_, plain) => plain),
    { repeat: 3 },
  );
  expect(checked).toEqual({ requests: manifest.pages.length * 7, differences: [], isSteady: true });
});

test('each of 100 changes that everybody gets is found, at its path alone', async () => {
  const changes = generated();
  expect(new Set(changes.map(({ path }) => path)).size).toBeGreaterThan(10);
  const missed: string[] = [];
  for (const { name, path, make } of changes) {
    const ask = serving((asked, plain, headers) => (asked === path ? make(asked, plain, headers) : plain));
    // Beside the changed page one that did not change: all others would be most of the work.
    const at = manifest.pages.findIndex((page) => page.path === path);
    const pages = manifest.pages.filter((_, index) => index === at || index === (at + 1) % manifest.pages.length);
    const { differences } = await checkPages({ ...manifest, pages }, ask, { repeat: 1 });
    if (differences.length === 0 || differences.some((found) => found.path !== path)) missed.push(name);
  }
  expect(changes).toHaveLength(100);
  expect(missed).toEqual([]);
});

test('what one visitor in ten gets is found by 50 rounds in at least 99 of 100 runs', async () => {
  const body = Buffer.from('the page');
  const sha256 = createHash('sha256').update(body).digest('hex');
  const small = { ...manifest, pages: [{ path: 's', sha256, headers: {} }] };
  const random = randomFrom(7);
  let found = 0;
  for (let runs = 0; runs < 100; runs += 1) {
    // A visitor is drawn once: the first round asks in five encodings.
    const ask: AskPage = async (_, headers) => {
      const isFirst = headers['accept-encoding'] === 'gzip, deflate, br, zstd';
      const isHit = isFirst && random() < 0.1;
      return { status: 200, headers: {}, bytes: isHit ? Buffer.from('another') : body };
    };
    const { differences, isSteady } = await checkPages(small, ask, { repeat: 50 });
    if (differences.length > 0) found += 1;
    expect(isSteady).toBe(differences.length === 0);
  }
  expect(found).toBeGreaterThanOrEqual(99);
});

describe('the command', () => {
  /** With the list at hand, which is made again for each command in a checkout. */
  async function verify(url: string, ...argv: string[]): Promise<Ran> {
    await writeFile(join(directory, 'pages.json'), manifestText(manifest));
    const list = argv.includes('--pages') ? [] : ['--pages', 'pages.json'];
    return run(['pages', 'verify', url, '--data-dir', join(directory, 'home'), ...argv, ...list], directory);
  }
  const rewriting = (isFor: (path: string) => boolean, rewrite: Extract<Fault, { kind: 'rewrite' }>['rewrite']) =>
    faultyProxy(
      () => local.url,
      ({ path }) => (isFor(path) ? { kind: 'rewrite', rewrite } : undefined),
    );
  const naming =
    (version: string): Extract<Fault, { kind: 'rewrite' }>['rewrite'] =>
    (answer) => ({
      ...answer,
      body: Buffer.from(JSON.stringify({ ...(JSON.parse(answer.body.toString()) as object), version })),
    });

  test('finds the pages of a real service the same, and says what it cannot find', async () => {
    const secret = 'SECRET0123';
    const ran = await verify(`${local.url}/s#1${secret}`, '--repeat', '2');
    expect(ran, ran.stderr).toMatchObject({ exit: 0, stdout: '' });
    expect(ran.stderr).toContain(`the pages are those of sealpin ${manifest.version}`);
    expect(ran.stderr.replace(/\nsealpin: +|\s+/g, ' ')).toContain('a service that aims at one reader');
    // It makes its list again.
    const { stdout } = await run(['pages', 'verify', local.url, '--json'], directory);
    expect(JSON.parse(stdout)).toMatchObject({ state: 'same', hash: manifest.hash, differences: [] });
  });

  test('names what was changed, and fails', async () => {
    const proxy = await rewriting(
      (path) => path === '/dl/sw.js',
      (answer) => {
        const headers = Object.fromEntries(
          Object.entries(answer.headers).filter(([name]) => name !== 'content-encoding'),
        );
        const isGzip = answer.headers['content-encoding'] === 'gzip';
        return {
          ...answer,
          headers,
          body: Buffer.concat([isGzip ? gunzipSync(answer.body) : answer.body, Buffer.from('//')]),
        };
      },
    );
    const ran = await verify(`${proxy.url}/`);
    expect(ran.exit).not.toBe(0);
    expect(ran.stdout).toMatch(/^\/dl\/sw\.js: the content \(SHA-256 [0-9a-f]{16}…\), 5 times, first as Chrome\n$/);
    expect(ran.stderr).toContain(`the pages are not those of sealpin ${manifest.version}`);
  });

  test('tells another version from changed pages, and compares it with its own list', async () => {
    const other = {
      ...manifest,
      version: '9.9.9',
      pages: manifest.pages.map((page) => ({ ...page, sha256: '0'.repeat(64) })),
    };
    await writeFile(join(directory, 'other.json'), manifestText(other));
    await writeFile(join(directory, 'own.json'), manifestText({ ...manifest, version: '9.9.9' }));
    const newer = await rewriting((path) => path === '/v1/health', naming('9.9.9'));
    const changed = await verify(`${newer.url}/`, '--pages', 'other.json');
    expect(changed.stderr).toContain('the pages are not those of sealpin 9.9.9');
    const older = await verify(local.url, '--pages', 'other.json');
    expect(older).toMatchObject({ stdout: '', stderr: expect.stringContaining('another version') });
    expect(older.exit).not.toBe(0);
    expect(await verify(`${newer.url}/`, '--pages', 'own.json')).toMatchObject({ exit: 0 });
  });

  test('believes no name of a version where readers do not all get the same', async () => {
    let asked = 0;
    const proxy = await faultyProxy(
      () => local.url,
      ({ path }) => {
        if (path === '/v1/health') return { kind: 'rewrite', rewrite: naming('9.9.9') };
        return path === '/s' && (asked += 1) % 2 === 0 ? { kind: 'answer', status: 200, body: 'another' } : undefined;
      },
    );
    expect((await verify(`${proxy.url}/`)).stderr).toContain('the pages are not those');
  });

  test('a service that is overloaded, redirects or is none is no finding', async () => {
    const busy = await faultyProxy(
      () => local.url,
      ({ path }) => (path === '/s' ? { kind: 'answer', status: 503 } : undefined),
    );
    expect(await verify(`${busy.url}/`)).toMatchObject({
      stdout: '',
      stderr: expect.stringContaining('the status 503'),
    });
    const moved = await faultyProxy(
      () => local.url,
      ({ path }) =>
        path === '/s' ? { kind: 'answer', status: 302, headers: { location: 'https://example.org/' } } : undefined,
    );
    expect((await verify(`${moved.url}/`)).stdout).toMatch(/^\/s: a redirect to another address, 5 times/);
    await writeFile(join(directory, 'bad.json'), '{"v":1}');
    expect(await verify(local.url, '--pages', 'bad.json')).toMatchObject({
      exit: 1,
      stderr: expect.stringContaining('bad.json'),
    });
    expect(await verify(local.url, '--repeat', '0')).toMatchObject({ exit: 2 });
  });
});

test('the manifest has the paths that pages ask for', () => {
  const paths = manifest.pages.map(({ path }) => path);
  expect(paths).toContain('');
  expect(paths).toContainEqual(expect.stringMatching(/^web\/engine\.js\?[0-9a-f]{16}$/));
});
