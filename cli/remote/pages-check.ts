/**
 * Comparing what a service sends for its pages with the manifest of a version, as browsers would
 * ask for them.
 */
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, zstdDecompress } from 'node:zlib';
import * as v from 'valibot';
import { SealpinError } from '../../shared/errors.ts';
import { bindingHeaders, type PagesManifest } from '../local/code/pages-manifest.ts';

const Manifest = v.object({
  v: v.literal(1),
  version: v.string(),
  hash: v.string(),
  pages: v.pipe(
    v.array(
      v.object({
        path: v.pipe(v.string(), v.regex(/^[\w./%?-]{0,200}$/)),
        sha256: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
        headers: v.record(v.string(), v.string()),
      }),
    ),
    v.minLength(1),
  ),
});

/** Reads a manifest; `where` names it in the error. @throws config_invalid */
export function parseManifest(value: unknown, where: string): PagesManifest {
  const result = v.safeParse(Manifest, value);
  if (result.success) return result.output;
  throw new SealpinError('config_invalid', `${where} is not a list of the pages of a version`, {
    hint: 'use the pages.json of a release',
  });
}

/** A response as it came, its body still compressed. A redirect is one, and is not followed. */
export type PageResponse = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: Uint8Array;
};

/** Sends one request on a connection of its own. `path` is relative to the service's root. */
export type AskPage = (path: string, headers: Readonly<Record<string, string>>) => Promise<PageResponse>;

/**
 * A difference: at which path, in what, in how many responses, and the browser that met it first.
 */
type PageDifference = { readonly path: string; readonly what: string; count: number; readonly browser: string };

/** `isSteady`: each path was the same in all responses. */
export type CheckedPages = {
  readonly requests: number;
  readonly differences: readonly PageDifference[];
  readonly isSteady: boolean;
};

const webKit = 'AppleWebKit/537.36 (KHTML, like Gecko)';
const safari = 'AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1';
/** Browsers, as their requests looked in November 2026. */
const browsers = [
  ['Chrome', `(Windows NT 10.0; Win64; x64) ${webKit} Chrome/142.0.0.0 Safari/537.36`],
  ['Firefox', '(Windows NT 10.0; Win64; x64; rv:145.0) Gecko/20100101 Firefox/145.0'],
  ['Safari', `(Macintosh; Intel Mac OS X 10_15_7) ${safari} Safari/605.1.15`],
  ['iPhone', `(iPhone; CPU iPhone OS 18_7 like Mac OS X) ${safari} Mobile/15E148 Safari/604.1`],
  ['Android', `(Linux; Android 10; K) ${webKit} Chrome/142.0.0.0 Mobile Safari/537.36`],
  ['Firefox on Linux', '(X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'],
] as const;
const languages = ['en-US,en;q=0.9', 'de-DE,de;q=0.9,en;q=0.6', 'fr,en;q=0.7', 'es-ES,es;q=0.9', 'ja,en;q=0.5'];

/** The encodings that browsers take, and each alone: a service has bytes of its own for each. */
const usualEncodings = 'gzip, deflate, br, zstd';
const encodings = [usualEncodings, 'identity', 'gzip', 'br', 'zstd'];

/**
 * Asks for every page of a manifest, once in each encoding, and in further rounds as other
 * browsers do.
 * @param o.repeat number of rounds, each of which is one visitor
 * @param o.onRound called after each
 * @throws service_answer when the service is overloaded or fails, and what `ask` throws
 */
export async function checkPages(
  { pages }: PagesManifest,
  ask: AskPage,
  { repeat, onRound }: { readonly repeat: number; readonly onRound?: () => void },
): Promise<CheckedPages> {
  const differences = new Map<string, PageDifference>();
  const seen = new Map<string, string>();
  let requests = 0;
  let isSteady = true;
  for (let round = 0; round < repeat; round += 1) {
    const [browser, agent] = browsers[round % browsers.length] ?? browsers[0];
    const language = languages[round % languages.length] ?? languages[0];
    for (const encoding of round === 0 ? encodings : [usualEncodings])
      await Promise.all(
        pages.map(async (page) => {
          const headers = {
            ...requestHeaders(page),
            'user-agent': `Mozilla/5.0 ${agent}`,
            'accept-language': `${language}`,
          };
          const response = await ask(page.path, { ...headers, 'accept-encoding': encoding });
          requests += 1;
          const found = await differencesOf(response, page);
          for (const what of found) {
            const key = `${page.path} ${what}`;
            const known = differences.get(key) ?? { path: page.path, what, count: 0, browser };
            known.count += 1;
            differences.set(key, known);
          }
          const state = JSON.stringify(found);
          isSteady &&= (seen.get(page.path) ?? state) === state;
          seen.set(page.path, state);
        }),
      );
    onRound?.();
  }
  return { requests, differences: [...differences.values()], isSteady };
}

/** The headers by which a browser says what it needs a page for (Fetch Metadata). */
function requestHeaders({ path, headers }: PagesManifest['pages'][number]): Record<string, string> {
  const type = headers['content-type'] ?? '';
  const within = (dest: string, mode: string, accept = '*/*') => ({
    accept,
    'sec-fetch-dest': dest,
    'sec-fetch-mode': mode,
    'sec-fetch-site': 'same-origin',
  });
  if (type.startsWith('text/css')) return within('style', 'no-cors', 'text/css,*/*;q=0.1');
  if (path.endsWith('/sw.js')) return { ...within('serviceworker', 'same-origin'), 'service-worker': 'script' };
  if (/engine|curves/.test(path)) return within('worker', 'same-origin');
  if (!type.startsWith('text/html')) return within('script', 'no-cors');
  return {
    accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
    'sec-fetch-dest': 'document',
    'sec-fetch-mode': 'navigate',
    'sec-fetch-site': 'none',
    'sec-fetch-user': '?1',
    'upgrade-insecure-requests': '1',
  };
}

/** Says in what a response is not that of the manifest; nothing where it is. */
async function differencesOf(
  { status, headers, bytes }: PageResponse,
  page: PagesManifest['pages'][number],
): Promise<string[]> {
  if (status === 429 || status >= 500)
    throw new SealpinError('service_answer', `the service answers with the status ${status}`, {
      hint: 'nothing was found out: try again later',
    });
  if (status >= 300 && status < 400) return ['a redirect to another address'];
  if (status !== 200) return [`the status ${status}`];
  const found = bindingHeaders
    .filter((name) => [headers[name] ?? []].flat().join(', ') !== (page.headers[name] ?? ''))
    .map((name) => `the header ${name}`);
  const plain = await decoded(bytes, [headers['content-encoding'] ?? []].flat().join(', ').trim().toLowerCase());
  if (plain === undefined) return [...found, 'an encoding that cannot be read'];
  // The digest tells two changes of one path apart.
  const sha256 = createHash('sha256').update(plain).digest('hex');
  return sha256 === page.sha256 ? found : [...found, `the content (SHA-256 ${sha256.slice(0, 16)}…)`];
}

/** The most bytes of a page: engines have 300 KB. */
const maxPageBytes = 8 * 1024 * 1024;
const decoders = {
  gzip: promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
  zstd: promisify(zstdDecompress),
};

async function decoded(bytes: Uint8Array, encoding: string): Promise<Uint8Array | undefined> {
  if (encoding === '' || encoding === 'identity') return bytes;
  const decode = Object.entries(decoders).find(([name]) => name === encoding)?.[1];
  return decode?.(bytes, { maxOutputLength: maxPageBytes }).catch(() => undefined);
}
