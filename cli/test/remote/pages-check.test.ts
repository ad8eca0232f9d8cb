/**
 * What `pages verify` finds: every change that all readers get, and what one reader in ten gets.
 */
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { brotliCompressSync, constants, gunzipSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { faultyProxy, type ProxyFault } from '../../../testkit/faulty-proxy.ts';
import { ci, long } from '../../../testkit/long-run.ts';
import { startLoopbackServer } from '../../../testkit/loopback-server.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { bindingHeaders, manifestText, type PagesManifest } from '../../local/code/pages-manifest.ts';
import { askingAt, checkPages, type CheckedPages } from '../../remote/pages-check.ts';
import { defaultTimeouts } from '../../timeouts.ts';
import { run, temporaryDirectory, type Ran } from '../environment.ts';
import { sharedLocalService } from '../local.ts';
import { manifestOfRun } from '../pages-of-run.ts';

const local = sharedLocalService();
let directory: string;
let manifest: PagesManifest;
/** What the real service sends, by path: the encodings are made here. */
const bodies = new Map<string, Buffer>();
beforeEach(async () => {
  directory = await temporaryDirectory();
});
beforeAll(async () => {
  manifest = await manifestOfRun();
  for (const { path } of manifest.pages)
    bodies.set(path, Buffer.from(await (await fetch(new URL(`/${path}`, local.url))).arrayBuffer()));
});

const compress = {
  gzip: (bytes: Buffer) => gzipSync(bytes, { level: 1 }),
  br: (bytes: Buffer) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
  zstd: (bytes: Buffer) => zstdCompressSync(bytes),
};
type Encoding = keyof typeof compress;
const encodingFor = (accepted: string | undefined): Encoding | undefined =>
  (['br', 'zstd', 'gzip'] as const).find((name) => accepted?.split(', ').includes(name));

/** A response as it goes on the wire: `headers` may have a name several times. */
type Sent = {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly bytes: Buffer;
  readonly encoding: Encoding | undefined;
  /** The `Link` of early hints. */
  readonly hint?: string;
};
type Asked = { readonly path: string; readonly headers: IncomingHttpHeaders };

/** Changes the response to some requests; undefined: to this one nothing. */
let change: (asked: Asked, sent: Sent) => Sent | undefined;
let served: string;
beforeEach(() => {
  change = () => undefined;
});
/** A service that sends the pages of the manifest, but for what is changed. */
beforeAll(async () => {
  const server = await startLoopbackServer(({ url = '', headers }, response) => {
    const [path = ''] = url.slice(1).split('?utm_source');
    const page = present(manifest.pages.find((each) => each.path === path));
    const etag = `"${page.sha256}"`;
    const isKept = headers['if-none-match'] === etag;
    const honest: Sent = {
      status: isKept ? 304 : 200,
      headers: [...Object.entries(page.headers), ['etag', etag]],
      bytes: isKept ? Buffer.alloc(0) : present(bodies.get(path)),
      encoding: isKept ? undefined : encodingFor(headers['accept-encoding']),
    };
    const { status, headers: all, bytes, encoding, hint } = change({ path: url.slice(1), headers }, honest) ?? honest;
    if (hint !== undefined) response.writeEarlyHints({ link: hint });
    const encoded = encoding === undefined ? bytes : compressed(bytes, encoding);
    const own: [string, string][] = encoding === undefined ? [] : [['content-encoding', encoding]];
    response.writeHead(status, [...all, ...own].flat()).end(encoded);
  });
  served = server.url;
  return () => server.close();
});

const kept = new Map<string, Buffer>();
function compressed(bytes: Buffer, encoding: Encoding): Buffer {
  const key = `${encoding} ${createHash('sha256').update(bytes).digest('hex')}`;
  const made = kept.get(key) ?? compress[encoding](bytes);
  kept.set(key, made);
  return made;
}

const check = (pages = manifest.pages, repeat = 1): Promise<CheckedPages> => {
  const { signal } = new AbortController();
  const ask = askingAt(new URL(`${served}/`), { signal, timeouts: defaultTimeouts });
  return checkPages({ ...manifest, pages }, ask, { repeat });
};

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

type Page = PagesManifest['pages'][number];
type Change = (asked: Asked, sent: Sent) => Sent | undefined;

/** Adds a header, beside one of the same name. */
const adding =
  (name: string, value: string): Change =>
  (_, sent) => ({ ...sent, headers: [...sent.headers, [name, value]] });
const without = (sent: Sent, name: string): Sent => ({
  ...sent,
  headers: sent.headers.filter(([each]) => each !== name),
});
const rewriting =
  (edit: (text: string) => string): Change =>
  (_, sent) => ({ ...sent, bytes: Buffer.from(edit(sent.bytes.toString())) });
const longer = rewriting((text) => `${text} `);
/** Changes what meets a condition, and nothing else. */
const where =
  (isMet: (asked: Asked) => boolean, make: Change): Change =>
  (asked, sent) =>
    isMet(asked) ? make(asked, sent) : undefined;
const otherValue = (name: string): string => (name.endsWith('policy') ? 'default-src *' : 'text/x; other');
const isDocument = ({ headers }: Page): boolean => present(headers['content-type']).startsWith('text/html');

/** Kinds of changes to a page; undefined where there is none of this kind. */
const kinds: Record<string, (page: Page, random: () => number) => Change | undefined> = {
  'a byte': (_, random) => {
    const place = random();
    return (_asked, sent) => {
      const bytes = Buffer.from(sent.bytes);
      const at = Math.floor(place * bytes.length);
      if (bytes.length > 0) bytes[at] = itemOf(bytes, at) ^ 1;
      return { ...sent, bytes };
    };
  },
  'a script at its end': () => rewriting((text) => `${text};fetch("/x?"+location.hash)`),
  'another asset': (page) =>
    isDocument(page)
      ? rewriting((text) => text.replace('</head>', '<script src="web/x.js"></script></head>'))
      : undefined,
  'nothing in it': () => rewriting(() => ''),
  ...Object.fromEntries(
    bindingHeaders.flatMap((name) => [
      [
        `another ${name}`,
        () => (asked: Asked, sent: Sent) => adding(name, otherValue(name))(asked, without(sent, name)),
      ],
      [`one more ${name}`, () => adding(name, otherValue(name))],
      [
        `no ${name}`,
        (page: Page) => (page.headers[name] === undefined ? undefined : (_: Asked, sent: Sent) => without(sent, name)),
      ],
    ]),
  ),
  ...Object.fromEntries(
    [301, 302, 303, 307, 308].map((status) => [
      `a redirect ${status}`,
      (): Change => (_, sent) => ({ ...sent, status, headers: [['location', 'https://example.org/']] }),
    ]),
  ),
  ...Object.fromEntries(
    [201, 203, 206, 403, 404].map((status) => [
      `the status ${status}`,
      (): Change => (_, sent) => ({ ...sent, status }),
    ]),
  ),
  ...Object.fromEntries(
    ['gzip', 'br', 'zstd', undefined].map((name) => [
      `other bytes for the encoding ${name ?? 'identity'}`,
      () => where(({ headers }) => encodingFor(headers['accept-encoding']) === name, longer),
    ]),
  ),
  'an encoding by a dictionary': () => adding('content-encoding', 'dcb'),
  'bytes that are no gzip': () => adding('content-encoding', 'gzip'),
  'early hints': () => (_, sent) => ({ ...sent, hint: '</web/x.js>; rel=preload; as=script' }),
  'other bytes for browsers': () => where(({ headers }) => headers['sec-fetch-dest'] !== undefined, longer),
  'other bytes for a second visit': (_page) =>
    where(
      ({ headers }) => headers['if-none-match'] !== undefined,
      ({ path }, sent) => ({
        ...sent,
        status: 200,
        bytes: Buffer.concat([present(bodies.get(path)), Buffer.from(' ')]),
      }),
    ),
  'another policy for a second visit': () =>
    where(
      ({ headers }) => headers['if-none-match'] !== undefined,
      (asked, sent) =>
        adding('content-security-policy', 'default-src *')(asked, without(sent, 'content-security-policy')),
    ),
  'other bytes for a link that is tracked': (page) =>
    isDocument(page) ? where(({ path }) => path.includes('?utm_source'), longer) : undefined,
};

/** Every kind of change to every page; CI takes 100 of them, in turn, the short form 34. */
function generated(): { name: string; page: Page; make: Change }[] {
  const random = randomFrom(35);
  const all = Object.entries(kinds).flatMap(([kind, makeFor], row) =>
    manifest.pages.flatMap((page, column) => {
      const make = makeFor(page, random);
      const turn = (column - row + manifest.pages.length * 9) % manifest.pages.length;
      return make === undefined ? [] : [{ name: `${kind} at /${page.path}`, page, make, turn }];
    }),
  );
  return long ? all : all.toSorted((one, other) => one.turn - other.turn).slice(0, ci ? 100 : 34);
}

test('pages that are as they should be are found so, in every encoding', async () => {
  const documents = manifest.pages.filter(isDocument).length;
  const requests = manifest.pages.length * 8 + documents;
  expect(await check(manifest.pages, 3)).toEqual({ requests, differences: [], isSteady: true });
});

test('each of many changes that everybody gets is found, at its path alone', async () => {
  const changes = generated();
  expect(changes.length).toBeGreaterThanOrEqual(ci ? 100 : 34);
  expect(new Set(changes.map(({ page }) => page)).size).toBeGreaterThan(20);
  const missed: string[] = [];
  for (const { name, page, make } of changes) {
    change = (asked, sent) => (asked.path.split('?utm_source')[0] === page.path ? make(asked, sent) : undefined);
    // Beside the changed page one that did not change: all others would be most of the work.
    const at = manifest.pages.indexOf(page);
    const { differences } = await check([page, itemOf(manifest.pages, (at + 1) % manifest.pages.length)]);
    if (differences.length === 0 || differences.some(({ path }) => path !== page.path)) missed.push(name);
  }
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
    const ask: Parameters<typeof checkPages>[1] = async (_, headers) => {
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
  /** With a list of few pages at hand: in a checkout it is made again for each command. */
  async function verify(url: string, ...argv: string[]): Promise<Ran> {
    await writeFile(join(directory, 'pages.json'), manifestText(few()));
    const list = argv.includes('--pages') ? [] : ['--pages', 'pages.json'];
    return run(['pages', 'verify', url, '--data-dir', join(directory, 'home'), ...argv, ...list], directory);
  }
  const few = (): PagesManifest => ({
    ...manifest,
    pages: manifest.pages.filter(({ path }) => ['', 's', 'dl/sw.js'].includes(path)),
  });
  const rewriting = (isFor: (path: string) => boolean, rewrite: Extract<ProxyFault, { kind: 'rewrite' }>['rewrite']) =>
    faultyProxy(
      () => local.url,
      ({ path }) => (isFor(path) ? { kind: 'rewrite', rewrite } : undefined),
    );
  const naming =
    (version: string): Extract<ProxyFault, { kind: 'rewrite' }>['rewrite'] =>
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
    expect(ran.stdout).toMatch(/^\/dl\/sw\.js: the content \(SHA-256 [0-9a-f]{16}…\), 6 times, first as Chrome\n$/);
    expect(ran.stderr).toContain(`the pages are not those of sealpin ${manifest.version}`);
  });

  test('tells another version from changed pages, and compares it with its own list', async () => {
    const other = {
      ...few(),
      version: '9.9.9',
      pages: few().pages.map((page) => ({ ...page, sha256: '0'.repeat(64) })),
    };
    await writeFile(join(directory, 'other.json'), manifestText(other));
    await writeFile(join(directory, 'own.json'), manifestText({ ...few(), version: '9.9.9' }));
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

test('every header of a page is compared, but for those that bind no browser', async () => {
  const bindsNobody = ['accept-ranges', 'etag', 'vary', 'x-request-id', 'x-robots-tag'];
  const ofTransport = ['connection', 'content-encoding', 'content-length', 'date', 'keep-alive', 'transfer-encoding'];
  const known = new Set<string>([...bindingHeaders, ...bindsNobody, ...ofTransport]);
  for (const path of ['', 's', 'dl/sw.js']) {
    const { headers } = await fetch(new URL(`/${path}`, local.url));
    expect([...headers.keys()].filter((name) => !known.has(name))).toEqual([]);
  }
});

test('the manifest has the paths that pages ask for', () => {
  const paths = manifest.pages.map(({ path }) => path);
  expect(paths).toContain('');
  expect(paths).toContainEqual(expect.stringMatching(/^web\/engine\.js\?[0-9a-f]{16}$/));
});
