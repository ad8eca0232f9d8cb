/** The pages: static documents and parts, with nothing of a request or a deployment in them. */
import type { Hono, MiddlewareHandler } from 'hono';
import { web } from 'sealpin:web';
import { hex } from '../../shared/crypto/bytes.ts';
import type { App, Ctx } from '../http/app.ts';
import { methodNotAllowed } from '../http/middleware.ts';
import { respond } from '../http/representation.ts';

/** Headers of every document, whatever its bytes: nobody may do more with it. */
const common = {
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
};

/** Without `no-transform`, a proxy may insert scripts, which the hashes then refuse. */
const documentHeaders = {
  ...common,
  'Content-Type': 'text/html; charset=utf-8',
  'Cache-Control': 'no-cache, no-transform',
  'X-Robots-Tag': 'noindex',
};

/** A worker obeys the policy of its own script: it may call this service and nothing else. */
const workerPolicy = policyOf({ 'connect-src': "'self'", 'trusted-types': "'none'" });

/**
 * A worker that loads another script at its first use has a policy for that one address
 * (`web/trusted-addresses.ts`).
 */
const loadingPolicy = policyOf({ 'script-src': "'self'", 'connect-src': "'self'", 'trusted-types': 'sealpin' });

/**
 * The policy of a document: one script, which only this hash admits, and no code from text (the
 * names of the policies that make addresses of scripts are those in `web/`).
 */
function documentPolicy(scriptHash: string): string {
  return policyOf({
    'script-src': `'${scriptHash}'`,
    'style-src': "'self'",
    'img-src': "'self' data: blob:",
    'media-src': "'self'",
    'connect-src': "'self'",
    'worker-src': "'self'",
    'frame-src': "'self'",
    'form-action': "'none'",
    'base-uri': "'none'",
    'frame-ancestors': "'none'",
    'trusted-types': 'sealpin',
  });
}

function policyOf(directives: Record<string, string>): string {
  const all = { 'default-src': "'none'", ...directives, 'require-trusted-types-for': "'script'" };
  return Object.entries(all)
    .map(([name, value]) => `${name} ${value}`)
    .join('; ');
}

/** Adds the routes of the pages, which the description of the API leaves out. */
export function addWeb(app: Hono<App>): void {
  for (const { paths, html, scriptHash } of web.documents) {
    const headers = { ...documentHeaders, 'Content-Security-Policy': documentPolicy(scriptHash) };
    for (const path of paths) {
      serve(app, `/${path}`, html, headers);
      // Some mail filters encode the # of a link: what was meant for the page alone comes here, and
      // is neither read nor logged.
      if (path !== '') serve(app, `/:page{${path}%23.*}`, html, headers);
    }
  }
  for (const { path, type, text, loadsScripts = false } of web.files) {
    serve(app, `/${path}`, text, {
      ...common,
      'Content-Type': type,
      'Cache-Control': 'no-cache, no-transform',
      'Content-Security-Policy': loadsScripts ? loadingPolicy : workerPolicy,
      // For a while it also answers the ranges of a video, which the page asks for.
      ...(`/${path}` === ownWorker ? { 'Service-Worker-Allowed': '../' } : {}),
    });
  }
  // What is saved below /dl/ comes from a page's service worker. Where there is none, the page must
  // stay.
  app.get('/dl/:id', () => new Response(null, { status: 204, headers: { 'Cache-Control': 'no-store' } }));
}

const ownWorker = '/dl/sw.js';
/** A service worker that ends itself. */
const leaving = `addEventListener('install', () => skipWaiting());
addEventListener('activate', (event) => event.waitUntil(registration.unregister()));
`;

/**
 * Ends every service worker but that of the pages, when its browser looks for a newer one.
 * Otherwise one that foreign pages left there, in an hour in which they were served, would serve
 * them for ever.
 */
export const onlyOwnWorker: MiddlewareHandler<App> = async (c, next) => {
  const isForeign = c.req.header('Service-Worker') === 'script' && c.req.path !== ownWorker;
  if (c.req.method !== 'GET' || !isForeign) return next();
  return c.body(leaving, 200, {
    ...common,
    'Content-Type': 'text/javascript; charset=utf-8',
    'Cache-Control': 'no-store',
    'Content-Security-Policy': workerPolicy,
    // As far as what it replaces was allowed to reach.
    'Service-Worker-Allowed': '/',
  });
};

/** Files that a browser may keep for good: its address names these bytes. */
const immutable = 'public, max-age=31536000, immutable, no-transform';

/** Serves a text, compressed where the client takes that: no proxy may do it later. */
function serve(app: Hono<App>, path: string, text: string, headers: Record<string, string>): void {
  const bytes = new TextEncoder().encode(text);
  let prepared: Promise<{ digest: string; gzipped: Uint8Array }> | undefined;
  app.get(path, async (c: Ctx) => {
    prepared ??= prepare(bytes);
    const { digest, gzipped } = await prepared;
    const isGzipped = takesGzip(c.req.header('Accept-Encoding') ?? '');
    const sent = isGzipped ? gzipped : bytes;
    const response = await respond(c, {
      etag: isGzipped ? `"${digest}-gzip"` : `"${digest}"`,
      headers: new Headers({
        ...headers,
        Vary: 'Accept-Encoding',
        ...(isGzipped ? { 'Content-Encoding': 'gzip' } : {}),
        ...(isVersion(new URL(c.req.url).search, path, digest) ? { 'Cache-Control': immutable } : {}),
      }),
      bytes: sent.length,
      body: async () => sent,
      ranges: false,
    });
    if (!isGzipped || response.body === null) return response;
    return new Response(response.body, { headers: response.headers, encodeBody: 'manual' });
  });
  app.all(path, methodNotAllowed(['get']));
}

/** Recognizes an address that means these bytes: `?<16 hex>`, or a name that has them. */
function isVersion(search: string, path: string, digest: string): boolean {
  const version = digest.slice(0, 16);
  return search === `?${version}` || path.endsWith(`-${version}.js`);
}

/** Recognizes a client that takes gzip (RFC 9110 section 12.5.3), by name and not refused. */
function takesGzip(accepted: string): boolean {
  const given = accepted.split(',').map((each) => each.trim().toLowerCase());
  return given.some((each) => /^gzip(?:;q=(?:0\.\d*[1-9]\d*|1(?:\.0*)?))?$/.test(each.replaceAll(' ', '')));
}

async function prepare(bytes: Uint8Array): Promise<{ digest: string; gzipped: Uint8Array }> {
  const gzipped = new Response(bytes).body?.pipeThrough(new CompressionStream('gzip'));
  return {
    // `toHex` is not in every runtime that asks for the pages.
    digest: hex(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))),
    gzipped: new Uint8Array(await new Response(gzipped ?? null).arrayBuffer()),
  };
}
