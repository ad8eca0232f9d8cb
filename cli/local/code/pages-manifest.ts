/**
 * Manifest of the pages of this version: a digest and headers by path, made by asking
 * the Worker's own routes. The same source gives the same bytes.
 */
import { createHash } from 'node:crypto';
import * as v from 'valibot';
import packageJson from '../../../package.json' with { type: 'json' };
import { bundle } from './bundle.ts';
import { shippedFile } from './shipped-file.ts';

/** Its name in packages and releases. */
export const manifestFile = 'pages.json';

/**
 * Headers by which a browser treats a page in another way; others, such as those that proxies add,
 * do not count.
 */
export const bindingHeaders = [
  'cache-control',
  'clear-site-data',
  'content-disposition',
  'content-security-policy',
  'content-security-policy-report-only',
  'content-type',
  'cross-origin-embedder-policy',
  'cross-origin-opener-policy',
  'cross-origin-resource-policy',
  'document-policy',
  'integrity-policy',
  'link',
  'origin-trial',
  'permissions-policy',
  'referrer-policy',
  'refresh',
  'service-worker-allowed',
  'sourcemap',
  'speculation-rules',
  'use-as-dictionary',
  'x-content-type-options',
  'x-sourcemap',
] as const;

/** `path` is relative to the service's root; `sha256` in hex, of the bytes without compression. */
const PageDigest = v.object({
  path: v.pipe(v.string(), v.regex(/^[\w./%?-]{0,200}$/)),
  sha256: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
  headers: v.record(v.string(), v.string()),
});

/** `hash` is that of all pages, which health and the foot of each page show. */
export const PagesManifest = v.object({
  v: v.literal(1),
  version: v.string(),
  hash: v.string(),
  pages: v.pipe(v.array(PageDigest), v.minLength(1)),
});
export type PagesManifest = v.InferOutput<typeof PagesManifest>;

/** The entry that is built: the routes of the pages alone. */
const entry = 'worker/routes/pages-alone.ts';

/** Makes the manifest from the source. @throws build_failed, not_installed */
export async function makePagesManifest(): Promise<PagesManifest> {
  const { runInThisContext } = process.getBuiltinModule('node:vm');
  const code = await bundle(entry, { format: 'iife', globalName: 'pages' });
  const { hash, paths, ask } = runInThisContext(`${code};pages`) as {
    hash: string;
    paths: readonly string[];
    ask: (path: string) => Promise<Response>;
  };
  const digestOf = async (path: string): Promise<PagesManifest['pages'][number]> => {
    const response = await ask(path);
    if (response.status !== 200) throw new TypeError(`/${path} gives the status ${response.status}`);
    const bytes = new Uint8Array(await response.arrayBuffer());
    const headers = bindingHeaders.flatMap((name) => {
      const value = response.headers.get(name);
      return value === null ? [] : [[name, value] as const];
    });
    return { path, sha256: createHash('sha256').update(bytes).digest('hex'), headers: Object.fromEntries(headers) };
  };
  const pages = await Promise.all(paths.map(digestOf));
  // Pages name their parts with the first half of their digests.
  const parts = pages.filter(({ path }) => /\.(?:js|css)$/.test(path));
  const named = await Promise.all(parts.map(({ path, sha256 }) => digestOf(`${path}?${sha256.slice(0, 16)}`)));
  return { v: 1, version: packageJson.version, hash, pages: [...pages, ...named] };
}

/** The text of a manifest, as packages and releases have it. */
export function manifestText(manifest: PagesManifest): string {
  return `${JSON.stringify(manifest, null, 1)}\n`;
}

/**
 * The manifest that this program was shipped with; in a checkout, that of the source as it is.
 * @throws build_failed, not_installed
 */
export async function shippedManifest(): Promise<unknown> {
  const shipped = await shippedFile(manifestFile);
  return shipped === undefined ? makePagesManifest() : JSON.parse(shipped.toString());
}
