/**
 * The pages, built from `web/` into a module that the Worker imports as `sealpin:web`. The same
 * source gives the same bytes.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type * as Esbuild from 'esbuild';
import { packageRoot, requireLocal } from '../package-root.ts';
import { wordList } from './shipped-file.ts';

/** Oldest browsers with `URL.canParse`, `indexedDB.databases` and `Promise.withResolvers`. */
export const oldestBrowsers = ['chrome120', 'firefox126', 'safari17.4'];

/**
 * The documents: where they are served, relative to the service's root, the files of their states,
 * and the entry of their script below `web/`.
 */
export const documents = [
  { paths: ['open', 's', 'b'], states: ['waiting', 'receive', 'opened'], entry: 'receive-page.ts' },
  {
    paths: ['', 'send'],
    states: ['api-key', 'waiting', 'compose', 'sending', 'sent', 'changing', 'links', 'confirming', 'about'],
    entry: 'send-page.ts',
  },
  { paths: ['drop'], states: ['waiting', 'drop', 'compose', 'sending'], entry: 'drop-page.ts' },
  {
    paths: ['files'],
    states: ['api-key', 'stored', 'compose', 'sending', 'sent', 'changing', 'confirming'],
    entry: 'files-page.ts',
  },
  { paths: ['links'], states: ['kept', 'changing', 'confirming'], entry: 'kept/links-page.ts' },
  { paths: ['inbox'], states: ['api-key', 'inbox', 'opened'], entry: 'inbox/inbox-page.ts' },
];

/** Where the script of a document is served, relative to the service's root. */
const scriptPathOf = (entry: string): string => `web/${basename(entry, '.ts')}.js`;

/**
 * A script. `writes`: whether it makes IPFS blocks. `loadsCurves`: whether it loads the curves at
 * their first use, and is built without.
 */
type Script = { readonly entry: string; readonly writes?: boolean; readonly loadsCurves?: boolean };

/**
 * The scripts that pages start, by their addresses. Unless it says otherwise, a service worker may
 * only control addresses below its own folder, and has to control `dl/`.
 */
const workers: Readonly<Record<string, Script>> = {
  'web/engine.js': { entry: 'workers/engine.ts', loadsCurves: true },
  'web/sealing-engine.js': { entry: 'workers/sealing-engine.ts', writes: true, loadsCurves: true },
  'dl/sw.js': { entry: 'workers/sw.ts' },
};

/** The curves, relative to `web/`. */
const curvesEntry = '../shared/crypto/providers/curves.ts';

/** A file that a document loads, or a script. `loadsScripts`: whether it loads another one. */
type WebFile = { readonly path: string; readonly type: string; readonly text: string; readonly loadsScripts?: boolean };

const scriptType = 'text/javascript; charset=utf-8';

/**
 * Builds the pages.
 * @param o.words a catalogue instead of the English one, for tests
 * @returns `hash`: SHA-256 in hex of everything in them, but for the place where they show it;
 * `scriptHash` of a document: what a Content-Security-Policy admits, `sha256-…`
 */
export async function bundleWeb({ words }: { words?: string } = {}) {
  const room = join(packageRoot(), 'web');
  const files = await compiledFiles(room, words);
  const versionAt = (path: string): string => versionOf(documentText(files, path));
  const integrityOf = (path: string): string => `sha256-${textDigest(documentText(files, path)).toString('base64')}`;
  const [layout, passwordField] = [await readHtml(room, 'layout'), await readHtml(room, 'password-field')];
  const drafts = documents.map(async ({ paths, states, entry }) => {
    const script = scriptPathOf(entry);
    const html = fillTemplate(layout, {
      states: fillTemplate(await readAllHtml(room, states), { passwordField }),
      script: `${script}?${versionAt(script)}`,
      style: `web/style.css?${versionAt('web/style.css')}`,
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

function readHtml(room: string, name: string): Promise<string> {
  return readFile(join(room, 'html', `${name}.html`), 'utf8');
}

async function readAllHtml(room: string, names: readonly string[]): Promise<string> {
  return (await Promise.all(names.map((each) => readHtml(room, each)))).join('\n');
}

/** Builds the style and all scripts: what names another one is built after it. */
async function compiledFiles(room: string, words: string | undefined): Promise<WebFile[]> {
  const compile = (script: Script, options: CompileOptions = {}) => compiledScript(room, script, words, options);
  const style = { path: 'web/style.css', type: 'text/css; charset=utf-8', text: await compile({ entry: 'style.css' }) };
  const curves = await compile({ entry: curvesEntry }, { globalName: 'curves' });
  // An engine may outlive the deployment that it came from. It takes the curves that it was built
  // with, or none.
  const curvesAddress = `curves-${versionOf(curves)}.js`;
  const started = Object.entries(workers).map(async ([path, script]): Promise<WebFile> => {
    const text = await compile(script, { define: { curvesAddress: JSON.stringify(curvesAddress) } });
    return { path, type: scriptType, text, loadsScripts: script.loadsCurves === true };
  });
  const engines = await Promise.all(started);
  // A page starts the engine that it was built with.
  const versions = Object.fromEntries(engines.map(({ path, text }) => [path, versionOf(text)]));
  const define = { scriptVersions: JSON.stringify(versions) };
  const pages = documents.map(async ({ entry, states }): Promise<WebFile> => {
    const html = await readAllHtml(room, ['layout', ...states]);
    const whole = await compile({ entry }, { define });
    const isUsed = (word: string, { isError = false } = {}): boolean =>
      whole.includes(`.${word}`) || (isError ? whole.includes(`"${word}"`) : html.includes(`data-word="${word}"`));
    return { path: scriptPathOf(entry), type: scriptType, text: await compile({ entry }, { define, isUsed }) };
  });
  return [
    style,
    ...(await Promise.all(pages)),
    ...engines,
    { path: `web/${curvesAddress}`, type: scriptType, text: curves },
    // The words of fingerprints, which a page asks for where something is signed.
    {
      path: 'web/words.txt',
      type: 'text/plain; charset=utf-8',
      text: await readFile(join(packageRoot(), wordList), 'utf8'),
    },
  ];
}

/** Tells whether a page uses a word of the catalogues. Those of errors are named by texts, too. */
type IsUsed = (word: string, o?: { isError?: boolean }) => boolean;
/** `isUsed`: all words are there when it is undefined. */
type CompileOptions = {
  readonly globalName?: string;
  readonly define?: Record<string, string>;
  readonly isUsed?: IsUsed;
};

/** Compiles a script or a style sheet of the pages. */
export async function compiledScript(
  room: string,
  { entry, writes = false, loadsCurves = false }: Script,
  words: string | undefined,
  { isUsed, ...options }: CompileOptions,
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
      withoutEdwards,
      ...(writes ? [] : [withoutWriter]),
      ...(loadsCurves ? [replaceCurves(join(room, 'workers/lazy-curves.ts'))] : []),
      ...(words === undefined ? [] : [replaceEnglish(words)]),
      ...(isUsed === undefined ? [] : [withoutUnusedWords(isUsed)]),
    ],
  });
  return outputFiles.map(({ text }) => text.trim()).join('\n');
}

/** The query of an address that means these bytes and no others. */
function versionOf(text: string): string {
  return textDigest(text).toString('hex', 0, 8);
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
export function fillTemplate(template: string, values: Record<string, string>): string {
  return template.replace(/\{\{(\w+)\}\}/g, (place, name: string) => values[name] ?? place);
}

/** Leaves out comments and indentation; no element of the pages keeps white space. */
export function compact(html: string): string {
  return html
    .replace(/<!--[^]*?-->/g, '')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join('\n');
}

/**
 * Builds a file from a text that is made of its own.
 * @param filter recognizes its path
 */
function rewriting(name: string, filter: RegExp, rewrite: (source: string) => string): Esbuild.Plugin {
  return {
    name,
    setup: ({ onLoad }) =>
      onLoad({ filter }, async ({ path }) => ({
        contents: rewrite(await readFile(path, 'utf8')),
        loader: path.endsWith('.ts') ? 'ts' : 'js',
      })),
  };
}

/**
 * Pages that receive read UnixFS and write none, which esbuild cannot see: one function of
 * ipfs-unixfs does both. Its writer brings every base of multiformats along, 6 KB compressed in
 * all.
 */
const withoutWriter = rewriting(
  'without protobuf writer',
  /protons-runtime\/dist\/src\/utils\/writer\.js$/,
  () => "export function createWriter() { throw new TypeError('this page writes no protobuf'); }",
);

/**
 * Leaves out the functions that read a message of UnixFS member by member, which nothing calls, and
 * esbuild cannot see that either.
 */
const withoutMembers = rewriting('without members of messages', /ipfs-unixfs\/dist\/src\/unixfs\.js$/, (source) =>
  source.replace(/, function\* \(reader[^]*?\n {12}\}\);/g, ');'),
);

/**
 * Leaves out the Edwards curve, by which X25519 makes public keys in a third of the time: a page
 * makes one for each file at most, and the curve is 2 KB compressed.
 */
const withoutEdwards = rewriting('without the Edwards curve', /@noble\/curves\/ed25519\.js$/, (source) =>
  source.replace(/^ {8}scalarMultBase: \(k\) => \{$[^]*?^ {8}\},$/m, ''),
);

/** Puts what loads the curves in their place. @param path of that module */
function replaceCurves(path: string): Esbuild.Plugin {
  return { name: 'lazy curves', setup: ({ onResolve }) => onResolve({ filter: /\/curves\.ts$/ }, () => ({ path })) };
}

/**
 * Leaves out the wire shapes that a page does not use. That the functions of valibot have no
 * effects is annotated where they are declared, which esbuild takes into account in that one file
 * only, so their calls are annotated here.
 */
const withoutUnusedShapes = rewriting('without unused shapes', /[\\/]shared[\\/]api[\\/][a-z-]+\.ts$/, (source) =>
  source.replace(/\bv\.\w+\(/g, '/* @__PURE__ */ $&'),
);

/**
 * Leaves of each error its code alone: what it is called and what a client can do about it, pages
 * say in the words of their catalogues, and the rest is for those who respond or exit.
 */
const codesAlone = rewriting('codes alone', /[\\/]shared[\\/]error-codes\.ts$/, (source) =>
  source
    .replace(/^(const hints\b.*)\{$[^]*?^\};$/m, '$1{};')
    .replace(/\bstatus: \d+,[^]*?title: '(?:[^'\\\n]|\\.)*'/g, "title: ''"),
);

/** Leaves out the words of other pages. */
function withoutUnusedWords(isUsed: IsUsed): Esbuild.Plugin {
  return rewriting('without unused words', /[\\/]words[\\/][a-z]{2}\.ts$/, (source) =>
    source
      .replace(/^ {2}(\w+):[^]*?,\n(?=\n| {2}\w|\};)/gm, (entry, word: string) =>
        always.has(word) || isUsed(word) ? entry : '',
      )
      .replace(/^ {2}errors: \{$[^]*?^ {2}\},$/m, (errors) =>
        errors.replace(/^ {4}(\w+):[^]*?,\n(?= {4}\w| {2}\})/gm, (entry, word: string) =>
          isUsed(word, { isError: true }) ? entry : '',
        ),
      ),
  );
}

/** Members of a catalogue that are no words. */
const always = new Set(['language', 'direction', 'errors']);

function replaceEnglish(words: string): Esbuild.Plugin {
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
export const webPlugin = (text: () => Promise<string> = webModuleText): Esbuild.Plugin => ({
  name: webModule,
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^sealpin:web$/ }, ({ path }) => ({ path, namespace: webModule }));
    onLoad({ filter: /.*/, namespace: webModule }, async () => ({ contents: await text(), loader: 'js' }));
  },
});
