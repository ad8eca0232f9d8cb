/**
 * The pages, built from `web/` into a module that the Worker imports as `sealpin:web`. The same
 * source gives the same bytes.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type * as Esbuild from 'esbuild';
import type { Plugin } from 'esbuild';
import { packageRoot, requireLocal } from '../package-root.ts';

/**
 * Oldest browsers that have what `shared/` uses: `Promise.withResolvers`, `AbortSignal.any`,
 * `ArrayBuffer.prototype.transfer`.
 */
export const oldestBrowsers = ['chrome119', 'firefox124', 'safari17.4'];

/**
 * The documents: where they are served, the files of their states, and their script; all paths are
 * relative to the service's root.
 */
const documents = [
  { paths: ['', 's', 'b'], states: ['receive'], script: 'web/receive-page.js' },
  {
    paths: ['send'],
    states: ['api-key', 'waiting', 'compose', 'sending', 'sent', 'links'],
    script: 'web/send-page.js',
  },
  { paths: ['drop'], states: ['waiting', 'drop', 'compose', 'sending'], script: 'web/drop-page.js' },
  { paths: ['files'], states: ['api-key', 'stored', 'compose', 'sending', 'sent'], script: 'web/files-page.js' },
] as const;

/**
 * A script. `writes`: whether it makes IPFS blocks. `loadsCurves`: whether it loads the curves at
 * their first use, and is built without.
 */
type Script = { readonly entry: string; readonly writes?: boolean; readonly loadsCurves?: boolean };

/**
 * The scripts by their addresses. A service worker may only control addresses below its own folder,
 * and has to control `dl/`. The engine that receives has its curves, because `/` opens files
 * without a network.
 */
const scripts: Readonly<Record<string, Script>> = {
  'web/receive-page.js': { entry: 'receive-page.ts' },
  'web/send-page.js': { entry: 'send-page.ts' },
  'web/drop-page.js': { entry: 'drop-page.ts' },
  'web/files-page.js': { entry: 'files-page.ts' },
  'web/engine.js': { entry: 'workers/engine.ts' },
  'web/sealing-engine.js': { entry: 'workers/sealing-engine.ts', writes: true, loadsCurves: true },
  'dl/sw.js': { entry: 'workers/sw.ts' },
};

/** The curves, relative to `web/`. */
const curvesEntry = '../shared/crypto/providers/curves.ts';

/** A file that a document loads, or a script. `loadsScripts`: whether it loads another one. */
type WebFile = { readonly path: string; readonly type: string; readonly text: string; readonly loadsScripts?: boolean };
/** A document; `scriptHash` is what a Content-Security-Policy admits: `sha256-…`. */
type WebDocument = {
  readonly paths: readonly string[];
  readonly html: string;
  readonly scriptPath: string;
  readonly scriptHash: string;
};
/**
 * All pages. `hash`: SHA-256 in hex of everything in them, but for the place where they show it.
 */
type Web = { readonly hash: string; readonly documents: readonly WebDocument[]; readonly files: readonly WebFile[] };

/** Builds the pages. @param o.words a catalogue instead of the English one, for tests */
export async function bundleWeb({ words }: { words?: string } = {}): Promise<Web> {
  const room = join(packageRoot(), 'web');
  const source = (name: string): Promise<string> => readFile(join(room, 'html', name), 'utf8');
  const compile = (script: Script, options: { globalName?: string; define?: Record<string, string> } = {}) =>
    compiledScript(room, script, words, options);
  const type = 'text/javascript; charset=utf-8';
  const curves = await compile({ entry: curvesEntry }, { globalName: 'curves' });
  // An engine may outlive the deployment that it came from. It takes the curves that it was built
  // with, or none.
  const curvesAddress = `curves-${textDigest(curves).toString('hex', 0, 8)}.js`;
  const compiled = Object.entries(scripts).map(async ([path, script]) => ({
    path,
    type,
    text: await compile(script, { define: { curvesAddress: JSON.stringify(curvesAddress) } }),
    loadsScripts: script.loadsCurves === true,
  }));
  const style = compile({ entry: 'style.css' }).then((text) => ({
    path: 'web/style.css',
    type: 'text/css; charset=utf-8',
    text,
  }));
  const [layout, passwordField, ...built] = await Promise.all([
    source('layout.html'),
    source('password-field.html'),
    style,
    ...compiled,
  ]);
  const files: WebFile[] = [...built, { path: `web/${curvesAddress}`, type, text: curves }];
  const integrityOf = (path: string): string => `sha256-${textDigest(documentText(files, path)).toString('base64')}`;
  const drafts = documents.map(async ({ paths, states, script }) => {
    const sections = (await Promise.all(states.map((each) => source(`${each}.html`)))).join('\n');
    const html = fillTemplate(layout, {
      states: fillTemplate(sections, { passwordField }),
      script,
      scriptIntegrity: integrityOf(script),
      styleIntegrity: integrityOf('web/style.css'),
    });
    return { paths, html: compact(html), scriptPath: script, scriptHash: integrityOf(script) };
  });
  const unsigned = await Promise.all(drafts);
  const parts = [...files.map(({ path, text }) => [path, text]), ...unsigned.map(({ paths, html }) => [paths, html])];
  const hash = textDigest(JSON.stringify(parts)).toString('hex');
  return { hash, files, documents: unsigned.map((each) => ({ ...each, html: fillTemplate(each.html, { hash }) })) };
}

async function compiledScript(
  room: string,
  { entry, writes = false, loadsCurves = false }: Script,
  words: string | undefined,
  options: { globalName?: string; define?: Record<string, string> },
): Promise<string> {
  const { build } = requireLocal('esbuild') as typeof Esbuild;
  const { outputFiles } = await build({
    ...options,
    absWorkingDir: room,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    format: 'iife',
    target: oldestBrowsers,
    charset: 'utf8',
    legalComments: 'none',
    logLevel: 'silent',
    write: false,
    plugins: [
      withoutUnusedShapes,
      codesAlone,
      withoutMembers,
      ...(writes ? [] : [withoutWriter]),
      ...(loadsCurves ? [replaceCurves(join(room, 'workers/lazy-curves.ts'))] : []),
      ...(words === undefined ? [] : [replaceEnglish(words)]),
    ],
  });
  return outputFiles.map(({ text }) => text.trim()).join('\n');
}

function textDigest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function documentText(files: readonly WebFile[], path: string): string {
  const file = files.find((each) => each.path === path);
  if (file === undefined) throw new TypeError(`there is no part ${path}`);
  return file.text;
}

/** Replaces `{{name}}`, where a value has that name. */
function fillTemplate(template: string, values: Record<string, string>): string {
  return template.replace(/\{\{(\w+)\}\}/g, (place, name: string) => values[name] ?? place);
}

/** Leaves out comments and indentation; no element of the pages keeps white space. */
function compact(html: string): string {
  return html
    .replace(/<!--[^]*?-->/g, '')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join('\n');
}

/**
 * Pages that receive read UnixFS and write none, which esbuild cannot see: one function of
 * ipfs-unixfs does both. Its writer brings every base of multiformats along, 6 KB compressed in
 * all.
 */
const withoutWriter: Plugin = {
  name: 'without protobuf writer',
  setup({ onLoad }) {
    const contents = "export function createWriter() { throw new TypeError('this page writes no protobuf'); }";
    onLoad({ filter: /protons-runtime\/dist\/src\/utils\/writer\.js$/ }, () => ({ contents }));
  },
};

/**
 * Leaves out the functions that read a message of UnixFS member by member, which nothing calls, and
 * esbuild cannot see that either.
 */
const withoutMembers: Plugin = {
  name: 'without members of messages',
  setup({ onLoad }) {
    onLoad({ filter: /ipfs-unixfs\/dist\/src\/unixfs\.js$/ }, async ({ path }) => {
      const source = await readFile(path, 'utf8');
      return { contents: source.replace(/, function\* \(reader[^]*?\n {12}\}\);/g, ');') };
    });
  },
};

/** Puts what loads the curves in their place. @param path of that module */
function replaceCurves(path: string): Plugin {
  return { name: 'lazy curves', setup: ({ onResolve }) => onResolve({ filter: /\/curves\.ts$/ }, () => ({ path })) };
}

/**
 * Leaves out the wire shapes that a page does not use. That the functions of valibot have no
 * effects is annotated where they are declared, which esbuild takes into account in that one file
 * only, so their calls are annotated here.
 */
const withoutUnusedShapes: Plugin = {
  name: 'without unused shapes',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]shared[\\/]api[\\/][a-z-]+\.ts$/ }, async ({ path }) => {
      const source = await readFile(path, 'utf8');
      return { contents: source.replace(/\bv\.\w+\(/g, '/* @__PURE__ */ $&'), loader: 'ts' };
    });
  },
};

/**
 * Leaves of each error its code alone: what it is called and what a client can do about it, pages
 * say in the words of their catalogues, and the rest is for those who respond or exit.
 */
const codesAlone: Plugin = {
  name: 'codes alone',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]shared[\\/]error-codes\.ts$/ }, async ({ path }) => {
      const source = await readFile(path, 'utf8');
      const contents = source
        .replace(/^(const hints\b.*)\{$[^]*?^\};$/m, '$1{};')
        .replace(/\bstatus: \d+,[^]*?title: '(?:[^'\\\n]|\\.)*'/g, "title: ''");
      return { contents, loader: 'ts' };
    });
  },
};

function replaceEnglish(words: string): Plugin {
  return {
    name: 'words of a test',
    setup: ({ onResolve }) =>
      onResolve({ filter: /\/en\.ts$/ }, ({ importer }) => (importer === words ? undefined : { path: words })),
  };
}

/** Module name under which the Worker imports the pages. */
export const webModule = 'sealpin:web';

/** The module's source. */
export async function webModuleText(): Promise<string> {
  return `export const web = ${JSON.stringify(await bundleWeb())};`;
}

/** Lets esbuild find the pages. @param text gives their module */
export const webPlugin = (text: () => Promise<string> = webModuleText): Plugin => ({
  name: webModule,
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^sealpin:web$/ }, ({ path }) => ({ path, namespace: webModule }));
    onLoad({ filter: /.*/, namespace: webModule }, async () => ({ contents: await text(), loader: 'js' }));
  },
});
