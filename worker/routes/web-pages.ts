/**
 * The pages: static documents and their parts, none of which has anything of a request or a
 * deployment in it.
 */
import type { Hono } from 'hono';
import { web } from 'sealpin:web';
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

/**
 * Without `no-transform`, a proxy may insert scripts into a document, which the hashes then refuse.
 */
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
    'img-src': "'self' data:",
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
    const headers = { ...common, 'Content-Type': type, 'Cache-Control': 'no-cache, no-transform' };
    serve(app, `/${path}`, text, {
      ...headers,
      'Content-Security-Policy': loadsScripts ? loadingPolicy : workerPolicy,
    });
  }
  // What is saved below /dl/ comes from a page's service worker. Where there is none, the page must
  // stay.
  app.get('/dl/:id', () => new Response(null, { status: 204, headers: { 'Cache-Control': 'no-store' } }));
}

function serve(app: Hono<App>, path: string, text: string, headers: Record<string, string>): void {
  const bytes = new TextEncoder().encode(text);
  let etag: Promise<string> | undefined;
  app.get(path, async (c: Ctx) => {
    etag ??= etagOf(bytes);
    return await respond(c, {
      etag: await etag,
      headers: new Headers(headers),
      bytes: bytes.length,
      body: async () => bytes,
      ranges: false,
    });
  });
  app.all(path, methodNotAllowed(['get']));
}

async function etagOf(bytes: Uint8Array): Promise<string> {
  return `"${new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)).toHex()}"`;
}
