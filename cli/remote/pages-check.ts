/** Comparing the pages of a service, as browsers ask for them, with those of a version. */
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, zstdDecompress } from 'node:zlib';
import * as v from 'valibot';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { readAll } from '../../shared/streams/read-all.ts';
import type { Environment } from '../context.ts';
import { sendRequest } from '../io/http.ts';
import { bindingHeaders, PagesManifest } from '../local/code/pages-manifest.ts';

/** Reads a manifest; `where` names it in the error. @throws config_invalid */
export function parseManifest(value: unknown, where: string): PagesManifest {
  const result = v.safeParse(PagesManifest, value);
  if (result.success) return result.output;
  throw new SealpinError('config_invalid', `${where} is not a list of the pages of a version`, {
    hint: 'use the pages.json of a release',
  });
}

/**
 * A response as it came, its body still compressed. A redirect is one, and is not followed.
 * `early`: the status of what came before it, such as 103, which lets a browser load more.
 */
type PageResponse = {
  readonly status: number;
  readonly early?: number | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: Uint8Array;
};

/** Sends one request on a connection of its own. `path` is relative to the service's root. */
type AskPage = (path: string, headers: Readonly<Record<string, string>>) => Promise<PageResponse>;

/** The most bytes of a page, compressed or not: engines have 300 KB. */
const maxPageBytes = 8 * 1024 * 1024;

/** Returns what asks a service for its pages. */
export function askingAt(url: URL, { signal, timeouts }: Pick<Environment, 'signal' | 'timeouts'>): AskPage {
  return async (path, headers) => {
    let early: number | undefined;
    const onInformation = (status: number) => void (early = status);
    try {
      const address = new URL(url.pathname + path, url);
      const response = await sendRequest(address, { method: 'GET', headers, signal, timeouts, onInformation });
      const tooLarge = () => new SealpinError('service_answer', 'a page is larger than any page of Sealpin');
      const bytes = await readAll(response.body, maxPageBytes, tooLarge);
      return { status: response.status, headers: response.headers, early, bytes };
    } catch (error) {
      if (isSealpinError(error, 'service_answer') && error.reason === 'redirected')
        return { status: 302, headers: {}, bytes: new Uint8Array() };
      throw error;
    }
  };
}

/**
 * A difference: at which path, in what, in how many responses, and the browser that met it first.
 */
type PageDifference = { readonly path: string; readonly what: string; count: number; readonly browser: string };

export type CheckedPages = Readonly<Awaited<ReturnType<typeof checkPages>>>;

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

/** Encodings that browsers take; a service has bytes of its own for each. */
const usualEncodings = 'gzip, deflate, br, zstd';

/** A way to ask for a page. `again`: as who has it, and asks whether it has changed. */
type Way = { readonly encoding: string; readonly query?: string; readonly again?: true };
const usual: Way = { encoding: usualEncodings };
/** In the first round: each encoding, a second visit, an address with something added to it. */
const ways: readonly Way[] = [
  usual,
  ...['identity', 'gzip', 'br', 'zstd'].map((encoding) => ({ encoding })),
  { ...usual, again: true },
  { ...usual, query: '?utm_source=mail' },
];

/**
 * Asks for every page of a manifest in every way, and in further rounds as other browsers do.
 * @param o.repeat number of rounds, each of which is one visitor
 * @param o.onRound called after each
 * @returns what was found; `isSteady`: each path was the same in all responses
 * @throws service_answer when the service is overloaded or fails, and what `ask` throws
 */
export async function checkPages(
  { pages }: PagesManifest,
  ask: AskPage,
  { repeat, onRound }: { readonly repeat: number; readonly onRound?: () => void },
) {
  const differences = new Map<string, PageDifference>();
  const seen = new Map<string, string>();
  const etags = new Map<string, string>();
  let requests = 0;
  let isSteady = true;
  const compare = async (page: ManifestPage, way: Way, visitor: Visitor): Promise<void> => {
    const etag = way.again === true ? etags.get(page.path) : undefined;
    if ((way.again === true && etag === undefined) || (way.query !== undefined && !isDocument(page))) return;
    const response = await ask(`${page.path}${way.query ?? ''}`, {
      ...requestHeaders(page),
      'user-agent': `Mozilla/5.0 ${visitor.agent}`,
      'accept-language': visitor.language,
      'accept-encoding': way.encoding,
      ...(etag === undefined ? {} : { 'if-none-match': etag }),
    });
    requests += 1;
    for (const given of [response.headers['etag'] ?? []].flat()) etags.set(page.path, given);
    const found = await differencesOf(response, page, etag !== undefined);
    for (const what of found) {
      const key = `${page.path} ${what}`;
      const known = differences.get(key) ?? { path: page.path, what, count: 0, browser: visitor.browser };
      known.count += 1;
      differences.set(key, known);
    }
    // That nothing has changed says nothing of the content.
    if (response.status === 304 && found.length === 0) return;
    const state = JSON.stringify(found);
    isSteady &&= (seen.get(page.path) ?? state) === state;
    seen.set(page.path, state);
  };
  for (let round = 0; round < repeat; round += 1) {
    const visitor = visitorOf(round);
    for (const way of round === 0 ? ways : [usual]) await Promise.all(pages.map((page) => compare(page, way, visitor)));
    onRound?.();
  }
  return { requests, differences: [...differences.values()], isSteady };
}

type ManifestPage = PagesManifest['pages'][number];
type Visitor = { readonly browser: string; readonly agent: string; readonly language: string };

function visitorOf(round: number): Visitor {
  const [browser, agent] = browsers[round % browsers.length] ?? browsers[0];
  return { browser, agent, language: languages[round % languages.length] ?? 'en' };
}

/** Recognizes a page that people open. */
function isDocument({ headers }: ManifestPage): boolean {
  return headers['content-type']?.startsWith('text/html') === true;
}

/** The headers by which a browser says what it needs a page for (Fetch Metadata). */
function requestHeaders(page: ManifestPage): Record<string, string> {
  const { path, headers } = page;
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
  if (!isDocument(page)) return within('script', 'no-cors');
  return {
    accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
    'sec-fetch-dest': 'document',
    'sec-fetch-mode': 'navigate',
    'sec-fetch-site': 'none',
    'sec-fetch-user': '?1',
    'upgrade-insecure-requests': '1',
  };
}

/**
 * Says in what a response is not that of the manifest; nothing where it is.
 * @param isAgain whether it may say that nothing has changed, with new headers for what is kept
 */
async function differencesOf({ status, headers, bytes, early }: PageResponse, page: ManifestPage, isAgain: boolean) {
  if (status === 429 || status >= 500)
    throw new SealpinError('service_answer', `the service answers with the status ${status}`, {
      hint: 'nothing was found out: try again later',
    });
  const isKept = isAgain && status === 304;
  if (status >= 300 && status < 400 && !isKept) return ['a redirect to another address'];
  if (status !== 200 && !isKept) return [`the status ${status}`];
  const found = bindingHeaders
    .filter((name) => !isKept || headers[name] !== undefined)
    .filter((name) => [headers[name] ?? []].flat().join(', ') !== (page.headers[name] ?? ''))
    .map((name) => `the header ${name}`);
  if (early !== undefined) found.push(`a response before it (status ${early})`);
  if (isKept) return found;
  const plain = await decoded(bytes, [headers['content-encoding'] ?? []].flat().join(', ').trim().toLowerCase());
  if (plain === undefined) return [...found, 'an encoding that cannot be read'];
  // The digest tells two changes of one path apart.
  const sha256 = createHash('sha256').update(plain).digest('hex');
  return sha256 === page.sha256 ? found : [...found, `the content (SHA-256 ${sha256.slice(0, 16)}…)`];
}

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
