/** Receiving and sending in a page, beside a bare `fetch` of the same bytes in the same browser. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { connect } from '../client/index.ts';
import { launch } from '../testkit/browsers/browsers.ts';
import { launchChromiumOnDisk } from '../testkit/browsers/chromium.ts';
import type { RunningBrowser, Tab } from '../testkit/browsers/running-browser.ts';
import { programPath } from '../testkit/programs/programs.ts';
import { fillFile, withCli } from './cli-fixture.ts';
import { interleave, peer, summarize, type Bench, type Figure, type Sample, figureOf, MiB } from './figure.ts';
import { proportionalMiB } from './process-stats.ts';

/** `SEALPIN_BENCH_MIB=4096` receives a file of 4 GiB. */
const receivedMiB = Number(process.env['SEALPIN_BENCH_MIB'] ?? 1024);
const sentMiB = 256;
/** Runs of each task. */
const rounds = 2;
/** Interval between two readings of memory, in ms. */
const sampleMs = 1000;

export const bench: Bench = {
  name: 'pages',
  measures:
    'receiving 1 GiB (SEALPIN_BENCH_MIB) and sending 256 MiB in Chromium and Firefox to a bare ' +
    'fetch, memory, the first byte',
  async *run() {
    yield* withCli(async function* ({ dir, url, apiKey }) {
      const { send } = connect({ service: url, apiKey });
      const large = await send({ source: blocks(receivedMiB), name: 'large', size: receivedMiB * MiB }, { opens: 50 });
      const small = await send({ source: randomBytes(4096), name: 'small' }, { opens: 50 });
      const path = join(dir, 'file');
      await fillFile(path, sentMiB * MiB);
      const largeCid = large.files[0]?.cid ?? '';
      const fixture = { service: url, apiKey, large: large.link, largeCid, small: small.link, path };
      // A private window of Chromium has the files of a page in its memory, which is measured here.
      for (const [name, program, start] of [
        ['Chromium', 'chromium', launchChromiumOnDisk],
        ['Firefox', 'firefox-esr', launch.Firefox],
      ] as const) {
        if (programPath(program) === undefined) continue;
        const browser = await start();
        try {
          yield* receiving(name, browser, fixture);
          yield* sending(name, browser, fixture);
          yield* beginning(name, browser, fixture);
        } finally {
          await browser.close();
        }
      }
    });
  },
};

/** Files to receive and to send. `path` of a file. */
type Fixture = { service: string; apiKey: string; large: string; largeCid: string; small: string; path: string };

/** Random bytes, no MiB like another. */
function blocks(mebibytes: number): ReadableStream<Uint8Array> {
  const block = randomBytes(MiB);
  let count = 0;
  return new ReadableStream({
    pull(controller) {
      block.writeUInt32LE(count, 0);
      controller.enqueue(Uint8Array.from(block));
      if ((count += 1) === mebibytes) controller.close();
    },
  });
}

/**
 * Runs in a page before its scripts: opens the share, saves its file, and keeps when that was. Save
 * dialogs cannot be driven.
 */
const autopilot = `() => {
  if (window.top !== window) return;
  globalThis.showSaveFilePicker = undefined;
  globalThis.bench = {};
  const click = (id) => document.getElementById(id).click();
  const steps = [
    () => document.getElementById('asked')?.hidden === false && (click('open-button'), true),
    () => document.getElementById('opened')?.hidden === false && (click('save-0'), true),
    () => document.querySelector('[data-state=done], [data-state=failed]') !== null,
  ];
  const names = ['asked', 'opened', 'ended'];
  const step = () => {
    if (steps[0]()) {
      bench[names.shift()] = performance.now();
      steps.shift();
    }
    if (steps.length > 0) setTimeout(step, 5);
  };
  step();
}`;

/** Waits for the autopilot. */
const ended = `(async () => {
  while (globalThis.bench.ended === undefined) await new Promise((resolve) => setTimeout(resolve, 50));
  if (document.querySelector('[data-state=done]') === null) throw new Error(document.body.innerText);
  return globalThis.bench;
})()`;

type Times = { asked: number; opened: number; ended: number };

/** Does some work in a tab of its own. @param o as `open` of the browser takes it */
async function inTab<T>(
  browser: RunningBrowser,
  address: string,
  work: (tab: Tab) => Promise<T>,
  o?: { before: string },
): Promise<T> {
  const tab = await browser.open(address, o);
  try {
    return await work(tab);
  } finally {
    await tab.close();
  }
}

async function received(browser: RunningBrowser, link: string): Promise<Times> {
  return await inTab(browser, link, (tab) => tab.evaluate<Times>(ended), { before: autopilot });
}

async function* receiving(name: string, browser: RunningBrowser, o: Fixture): AsyncGenerator<Figure> {
  // As the page asks: a copy in the cache of the browser takes time, too.
  const reading = `const reader = (await fetch('/ipfs/${o.largeCid}', { cache: 'no-store' })).body.getReader();
    for (let bytes = 0, next; !(next = await reader.read()).done; bytes += next.value.length);`;
  const samples = await besideFetch(browser, {
    async page() {
      const { opened, ended } = await received(browser, o.large);
      return (receivedMiB * 1000) / (ended - opened);
    },
    bare: () =>
      inTab(
        browser,
        `${o.service}/send`,
        async (tab) => receivedMiB / (await tab.evaluate<number>(timedInPage(reading))),
      ),
  });
  yield speed(`${name}: receive ${receivedMiB} MiB`, samples, { atLeast: 0.5 });
  yield memoryFigure(name, 'receiving', samples);
}

async function* sending(name: string, browser: RunningBrowser, o: Fixture): AsyncGenerator<Figure> {
  /** @param input where the file is chosen; the page's own forgets it at once */
  const choose = (input: string, work: string) => () =>
    inTab(browser, `${o.service}/send`, async (tab) => {
      await tab.evaluate(`(async () => {
        document.getElementById('api-key').value = '${o.apiKey}';
        document.querySelector('#signing button').click();
        ${waitFor('compose')}
        document.body.append(Object.assign(document.createElement('input'), { type: 'file', id: 'bare' }));
      })()`);
      await tab.setFiles(input, [o.path]);
      return sentMiB / (await tab.evaluate<number>(timedInPage(work)));
    });
  const sendingAlone = `const headers = { Authorization: 'Bearer ${o.apiKey}' };
    const body = document.getElementById('bare').files[0];
    const response = await fetch('/v1/storage/plain', { method: 'POST', headers, body });
    if (!response.ok) throw new Error(await response.text());`;
  const samples = await besideFetch(browser, {
    page: choose('#choose', `document.getElementById('compose-button').click(); ${waitFor('sent')}`),
    bare: choose('#bare', sendingAlone),
  });
  yield speed(`${name}: send ${sentMiB} MiB`, samples, { atLeast: 0.6 });
  yield memoryFigure(name, 'sending', samples);
}

type Samples = Record<'page' | 'bare', { speed: Sample; grown: Sample }>;

/** Measures speed and memory of a page and of a bare fetch. @param o work, for its speed */
async function besideFetch(browser: RunningBrowser, o: Record<keyof Samples, () => Promise<number>>): Promise<Samples> {
  const tasks = { page: () => watching(browser.pid, o.page), bare: () => watching(browser.pid, o.bare) };
  return await interleave(tasks, rounds, { warmUp: false });
}

function speed(name: string, { page, bare }: Samples, ratio: { atLeast: number }): Figure {
  return figureOf(name, 'MiB/s', page.speed, { peer: peer('a bare fetch', bare.speed), target: { ratio } });
}

/** By how many MiB a browser grew at a task. */
function memoryFigure(name: string, task: string, { page, bare }: Samples): Figure {
  return {
    figure: `${name}: memory for ${task}, the most of ${rounds}`,
    unit: 'MiB',
    value: page.grown.high,
    peer: { name: 'a bare fetch', value: bare.grown.high },
    target: { value: { atMost: name === 'Firefox' ? 700 : 500 } },
  };
}

/** From the click at the link to a file of 4 KiB, opened and saved; and to the page that asks. */
async function* beginning(name: string, browser: RunningBrowser, o: Fixture): AsyncGenerator<Figure> {
  const times: Times[] = [];
  for (let round = 0; round < 5; round += 1) times.push(await received(browser, o.small));
  for (const [what, key] of [
    ['the page asks', 'asked'],
    ['4 KiB are opened and saved', 'ended'],
  ] as const) {
    const sample = summarize(times.map((each) => each[key]));
    yield figureOf(`${name}: start of the page until ${what}`, 'ms', sample);
  }
}

/** An expression: the seconds that statements take in a page. */
function timedInPage(statements: string): string {
  return `(async () => {
    const begun = performance.now();
    ${statements}
    return (performance.now() - begun) / 1000;
  })()`;
}

function waitFor(state: string): string {
  return `while (document.getElementById('${state}').hidden) await new Promise((resolve) => setTimeout(resolve, 20));`;
}

/** Does some work for its speed; `grown`: by how many MiB the browser became larger, at most. */
async function watching(pid: number, work: () => Promise<number>): Promise<{ speed: number; grown: number }> {
  const before = proportionalMiB(pid);
  let most = before;
  const timer = setInterval(() => (most = Math.max(most, proportionalMiB(pid))), sampleMs);
  try {
    return { speed: await work(), grown: most - before };
  } finally {
    clearInterval(timer);
  }
}
