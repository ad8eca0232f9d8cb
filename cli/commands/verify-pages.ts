import { Health } from '../../shared/api.ts';
import { describe } from '../../shared/error-codes.ts';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand, positional, valueFlag } from '../command.ts';
import type { Context } from '../context.ts';
import { atLeastOne } from '../flags/args.ts';
import { readSmall } from '../io/input.ts';
import { jsonIn } from '../io/json-text.ts';
import { manifestFile, shippedManifest, type PagesManifest } from '../local/code/pages-manifest.ts';
import { askingAt, checkPages, parseManifest, type CheckedPages } from '../remote/pages-check.ts';
import { parseServiceUrl } from '../remote/service-choice.ts';
import { factLines } from '../terminal/fitted-row.ts';
import { visible } from '../terminal/output.ts';
import { countText } from '../terminal/size.ts';
import { sdkHttp } from '../remote/client.ts';

/** The most bytes of a manifest. */
const maxManifestBytes = 8 * 1024 * 1024;
/** The limit of any comparison of this kind. */
const limitation =
  'this is what was sent to this program: a service that aims at one reader, and sends to them alone ' +
  'something else, is not found this way';

export const command = defineCommand({
  about:
    'Compares each page that a service sends, in every encoding, with that of this version, or of another one with ' +
    '--pages: its bytes, and the headers that protect its reader. Exits with 0 only if all are the same. That shows ' +
    'what was sent now, and to this program: a service that aims at one reader is not found.',
  args: {
    url: positional('The service, or one of its pages'),
    repeat: valueFlag('times', 'Ask so often, each time as another browser; finds what only some get (1)'),
    pages: valueFlag('file', 'The pages.json of another release', { path: true }),
  },
  examples: [
    { command: 'sealpin pages verify https://sealpin.example.com', does: 'Compare each page once' },
    { command: 'sealpin pages verify https://sealpin.example.com --repeat 50', does: 'Find what one in ten gets' },
  ],
  async run({ args, context }) {
    const { output } = context;
    const url = serviceOf(args.url);
    const repeat = args.repeat === undefined ? 1 : atLeastOne(Number(args.repeat), '--repeat');
    const manifest = await manifestFor(args.pages, context);
    const before = await healthOf(url, context);
    const total = repeat * manifest.pages.length;
    const progress = output.progress('comparing pages', total, { amount: (count) => countText(count, 'page') });
    const onRound = () => progress.add(manifest.pages.length);
    const checked = await checkPages(manifest, askingAt(url, context), { repeat, onRound }).finally(() =>
      progress.done(),
    );
    const state = verdict(manifest, checked, before);
    if (state === 'changed' && checked.differences.length > 0) await refuseUpdate(before, url, context);
    const { version, hash } = manifest;
    const { requests, differences } = checked;
    const lines = differences.flatMap(({ path, what, count, browser }) =>
      factLines(`/${path}: `, `${what}, ${countText(count, 'time')}, first as ${browser}`, context),
    );
    const object = { state, version, hash, served: before, requests, differences };
    await output.result(object, state === 'changed' ? lines : []);
    const theirs = before.pages === undefined ? '' : ` (${visible(before.pages).slice(0, 16)}…)`;
    const served = visible(before.version) + theirs;
    if (state === 'same') {
      output.note(
        `the pages are those of sealpin ${version} (${hash.slice(0, 16)}…): ${countText(requests, 'request')}`,
      );
      output.note(limitation);
      return 0;
    }
    if (state === 'another-version') {
      output.warn(
        `another version: the service says that it is ${served}, and the list is of ${version}; ` +
          `its pages were not compared: use that version, or its ${manifestFile} with --pages`,
      );
      return describe('unsupported_version').exit;
    }
    output.warn(`the pages are not those of sealpin ${version}: type no password there, and open no link`);
    return describe('content_mismatch').exit;
  },
});

/** The service of an address; what follows a `#` stays here. @throws usage */
function serviceOf(text: string): URL {
  const [address = ''] = text.trim().split(/[?#]|%23/);
  return parseServiceUrl(address.replace(/(?<=\/)(?:s|b|send|drop|files)\/?$/, ''), '<url>');
}

async function manifestFor(file: string | undefined, context: Context): Promise<PagesManifest> {
  if (file === undefined) return parseManifest(await shippedManifest(), manifestFile);
  const bytes = await readSmall(file, {
    limitBytes: maxManifestBytes,
    what: `the ${manifestFile} of a release`,
    environment: context,
  });
  return parseManifest(jsonIn(new TextDecoder().decode(bytes)), file);
}

type Served = Pick<Health, 'version' | 'pages'>;

async function healthOf(url: URL, context: Context): Promise<Served> {
  const http = sdkHttp({ url, apiKey: undefined }, context);
  const { version, pages } = await http.json(Health, { path: 'v1/health', signal: context.signal });
  return { version, pages };
}

/**
 * Verdict on the responses. A service that names another version has other pages, if each reader
 * gets the same; what it names proves nothing, so that is not called the same.
 */
function verdict({ version }: PagesManifest, { differences, isSteady }: CheckedPages, served: Served) {
  if (differences.length === 0) return 'same';
  return served.version !== version && isSteady ? 'another-version' : 'changed';
}

/** @throws conflict where the service was updated meanwhile */
async function refuseUpdate(before: Served, url: URL, context: Context): Promise<void> {
  const after = await healthOf(url, context);
  if (after.version === before.version && after.pages === before.pages) return;
  throw new SealpinError('conflict', `${url.host} was updated while its pages were compared`, {
    hint: 'run the same command again',
  });
}
