import { Writable } from 'node:stream';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { SealpinError } from '../../../shared/errors.ts';
import { headings } from '../../commands/index.ts';
import { heldLog } from '../../local/start-output.ts';
import { createOutput, visible, write } from '../../terminal/output.ts';
import { progressLine, timeText } from '../../terminal/progress.ts';
import { sizeText, usedText } from '../../terminal/size.ts';
import { Collector } from '../environment.ts';

function collect(
  o: {
    json?: boolean;
    quiet?: boolean;
    tty?: boolean;
    env?: Record<string, string>;
    now?: () => number;
    dataDir?: string;
  } = {},
) {
  const stdout = new Collector();
  const stderr = new Collector();
  stderr.isTTY = o.tty ?? false;
  return {
    stdout,
    stderr,
    out: createOutput({
      stdout,
      stderr,
      env: o.env ?? {},
      json: o.json ?? false,
      quiet: o.quiet ?? false,
      now: o.now ?? Date.now,
      dataDir: o.dataDir,
    }),
  };
}

describe('output', () => {
  test('sends data to stdout and words to stderr', async () => {
    const { stdout, stderr, out } = collect();
    out.note('a note');
    out.warn('careful');
    await out.result({ a: 1 }, ['line 1', 'line 2']);
    expect(stdout.text).toBe('line 1\nline 2\n');
    expect(stderr.text).toBe('sealpin: a note\nsealpin: warning: careful\n');
  });

  test('--quiet keeps warnings and errors', () => {
    const { stderr, out } = collect({ quiet: true, tty: true, env: { NO_COLOR: '1' } });
    out.note('a note');
    out.warn('careful');
    out.progress('working', 10).add(5);
    expect(out.failure(new SealpinError('file_exists', 'x exists'))).toBe(1);
    expect(stderr.text).toBe(
      'sealpin: warning: careful\nsealpin: error: x exists\nsealpin: hint: use --force to replace it\n',
    );
  });

  test.each([
    [1, '1 second'],
    [7, '7 seconds'],
  ])('says in how many seconds to try again: %i', (retryAfterSeconds, says) => {
    const { stderr, out } = collect();
    out.failure(new SealpinError('rate_limited', 'slow down', { hint: 'wait', retryAfterSeconds }));
    expect(stderr.text).toContain(`hint: wait (try again in ${says})\n`);
  });

  test('names --data-dir in every command that acts on the local service, once', () => {
    const local = headings
      .map(({ name }) => name)
      .filter((name) => /^(?:start|stop|status|rebuild|account|service)\b/.test(name));
    expect(local.length).toBeGreaterThan(9);
    const flag = String.raw`--data-dir '/home/ann'\''s'`;
    for (const name of local)
      for (const json of [false, true]) {
        const { stderr, out } = collect({ json, dataDir: "/home/ann's" });
        out.failure(new SealpinError('internal', 'no', { hint: `try: sealpin ${name} --json, sealpin stop` }));
        expect(stderr.text.replaceAll('\\\\', '\\')).toContain(`sealpin ${name} ${flag} --json, sealpin stop ${flag}`);
      }
    const { stderr, out } = collect({ dataDir: '/d' });
    out.note('stop it with: sealpin stop');
    out.warn("see: sealpin status --data-dir '/d'; sealpin keygen");
    expect(stderr.text).toBe(
      "sealpin: stop it with: sealpin stop --data-dir '/d'\n" +
        "sealpin: warning: see: sealpin status --data-dir '/d'; sealpin keygen\n",
    );
  });

  test('--json: one object on stdout, with the warnings in it', async () => {
    const { stdout, stderr, out } = collect({ json: true, tty: true });
    out.note('a note');
    out.warn('careful');
    out.progress('working', 10).add(5);
    await out.result({ a: 1 }, ['line']);
    expect(JSON.parse(stdout.text)).toEqual({ a: 1, warnings: ['careful'] });
    expect(stderr.text).toBe('');
  });

  test('--json: a failure is a problem object on stderr', () => {
    const { stdout, stderr, out } = collect({ json: true });
    out.warn('careful');
    expect(out.failure(new SealpinError('usage', 'so not'))).toBe(2);
    expect(stdout.text).toBe('');
    expect(JSON.parse(stderr.text)).toEqual({
      type: 'about:blank',
      title: 'Invalid usage',
      status: 400,
      detail: 'so not',
      code: 'usage',
      warnings: ['careful'],
    });
  });

  test('what is not our error is our bug, without a stack', () => {
    const { stderr, out } = collect();
    expect(out.failure(new RangeError('off by one'))).toBe(1);
    expect(stderr.text).toContain('sealpin: error: this is a bug in sealpin (RangeError: off by one)');
    expect(stderr.text).not.toContain('    at ');
  });

  test.each([40, 70, 80])('a terminal of %i columns gets lines broken between words, and commands whole', (columns) => {
    const { stderr, out } = collect({ tty: true });
    stderr.columns = columns;
    const command = 'sealpin inbox revoke 9f2c0d6be1a74583';
    const path = `/home/${'ann/'.repeat(30)}private.key`;
    out.warn(`the first words of a warning that is longer than one line of a terminal of eighty columns: ${command}`);
    out.note(`wrote ${path} (keep it secret and back it up)`);
    out.note('try:', ['one command \\'.repeat(20)]);
    const lines = stderr.text.trimEnd().split('\n');
    expect(lines.filter((line) => line.endsWith(command))).toHaveLength(1);
    expect(lines).toContain(`  ${'one command \\'.repeat(20)}`);
    expect(lines).toContain(`  ${path}`);
    const others = lines.filter((line) => !line.includes('one command') && !line.includes(path));
    for (const line of others)
      expect(visible(line).replaceAll(/\\u\{1b\}\[\d+m/g, '').length).toBeLessThanOrEqual(columns);
    expect(others[0]).toMatch(/^sealpin: \S+warning:\S+ the first words/);
    expect(stderr.text.replaceAll(/\s+/g, ' ')).toContain('longer than one line of a terminal of eighty columns:');
  });

  test('what is not a terminal gets each message in one line', () => {
    const { stderr, out } = collect();
    out.note('word '.repeat(60).trim());
    expect(stderr.text).toBe(`sealpin: ${'word '.repeat(60).trim()}\n`);
  });

  test.each([
    { title: 'a terminal gets colours', tty: true, env: {}, coloured: true },
    { title: 'NO_COLOR takes them away', tty: true, env: { NO_COLOR: '1' }, coloured: false },
    { title: 'an empty NO_COLOR says nothing', tty: true, env: { NO_COLOR: '' }, coloured: true },
    { title: 'a dumb terminal gets none', tty: true, env: { TERM: 'dumb' }, coloured: false },
    { title: 'a file gets none', tty: false, env: {}, coloured: false },
  ])('$title', ({ tty, env, coloured }) => {
    const { stderr, out } = collect({ tty, env });
    out.failure(new SealpinError('usage', 'so not'));
    expect(stderr.text.includes('\u001B[')).toBe(coloured);
  });

  test('S43: text from outside is shown without control characters and turned directions', () => {
    expect(visible('a\u001B[2Jb\u202Egnp.exe\u200B\u2028\r\nc')).toBe(
      'a\\u{1b}[2Jb\\u{202e}gnp.exe\\u{200b}\\u{2028}\\u{d}\\u{a}c',
    );
    expect(visible('zwölf 十二 ✓')).toBe('zwölf 十二 ✓');
  });

  test.each([
    { code: 'EPIPE', want: 'file_unwritable', says: 'the program that reads the output has closed it' },
    { code: 'ENOSPC', want: 'disk_full', says: 'the disk that standard output writes to is full' },
    { code: 'EIO', want: 'file_unwritable', says: 'standard output cannot be written (EIO)' },
  ])('S52: $code on stdout is $want', async ({ code, want, says }) => {
    const broken = new Writable({
      write: (_chunk, _encoding, done) => done(Object.assign(new Error('broken'), { code })),
    });
    broken.on('error', () => undefined);
    await expect(write(broken, 'x')).rejects.toMatchObject({ code: want, message: says });
  });
});

test('the log of a service sends no escape sequence to a terminal, as JSON, either', () => {
  const { stderr, out } = collect({ json: true, tty: true });
  const log = heldLog({ output: out, stderr } as never);
  log.line(JSON.stringify({ event: 'request', error: 'a\u009B2Jb\u202E' }));
  log.release();
  expect(stderr.text).toMatch(/^\{"time":"[^"]*","event":"request","error":"a\\u009b2Jb\\u202e"\}\n$/);
});

describe('progress', () => {
  test('sends no escape sequence of what it names to the terminal', () => {
    const { stderr, out } = collect({ tty: true });
    out.progress('looking through a\u001B]0;b\u0007\u202Ec').done();
    expect(stderr.text).toBe(`\r\u001B[Klooking through a\\u{1b}]0;b\\u{7}\\u{202e}c\r\u001B[K`);
  });

  test('is one line with share, rate and remaining time, as wide as the terminal at most', () => {
    const o = { label: 'storing', bytes: 256 * 1024 * 1024, total: 1024 ** 3, elapsedMs: 2000, columns: 100 };
    expect(progressLine(o)).toBe(
      'storing  256 MiB of 1.0 GiB  128 MiB/s  0:06 left  [########----------------------]  25%',
    );
    expect(progressLine({ ...o, total: undefined })).toBe('storing  256 MiB  128 MiB/s');
    // What was there before does not count as fast.
    expect(progressLine({ ...o, from: 128 * 1024 ** 2 })).toContain('  64.0 MiB/s  0:12 left  ');
    expect(progressLine({ ...o, bytes: 0, elapsedMs: 0 })).toBe(
      'storing  0 B of 1.0 GiB  [------------------------------]   0%',
    );
    expect(progressLine({ ...o, bytes: 0, total: undefined })).toBe('storing');
    expect(progressLine({ ...o, columns: 40 })).toHaveLength(39);
    expect(progressLine({ ...o, bytes: 5, total: 20, elapsedMs: 2000, amount: String })).toContain(
      '5 of 20  2.5/s  0:06 left',
    );
    expect(progressLine({ ...o, bytes: 2 * 1024 ** 3 })).toContain('100%');
  });

  test('is drawn on a terminal at most ten times a second, and goes away before other words', () => {
    let now = 0;
    const { stderr, out } = collect({ tty: true, now: () => now });
    const bar = out.progress('storing', 100);
    for (let i = 0; i < 50; i += 1) {
      now += 10;
      bar.add(1);
    }
    expect(stderr.chunks).toHaveLength(6);
    out.note('a note');
    expect(stderr.text.endsWith('\r\u001B[Ksealpin: a note\n')).toBe(true);
    bar.done();
    bar.add(1);
    expect(stderr.text.endsWith('a note\n')).toBe(true);
  });

  test('counts what came last, and gets slower, where no more comes', () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { stderr, out } = collect({ tty: true });
    const bar = out.progress('storing', 100);
    bar.add(50);
    const last = (): string | undefined => stderr.text.split('\r').at(-1);
    expect(last()).toContain('0 B of 100 B');
    vi.advanceTimersByTime(1000);
    expect(last()).toContain('50 B of 100 B  50 B/s  0:01 left');
    vi.advanceTimersByTime(9000);
    expect(last()).toContain('50 B of 100 B  5 B/s  0:10 left');
    out.note('a note');
    vi.advanceTimersByTime(9000);
    expect(stderr.text.endsWith('a note\n')).toBe(true);
    bar.add(1);
    bar.done();
    const drawn = stderr.text;
    vi.advanceTimersByTime(9000);
    expect(stderr.text).toBe(drawn);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('a new bar takes the place of the old one', () => {
    const { stderr, out } = collect({ tty: true });
    out.progress('first');
    out.progress('second');
    expect(stderr.text).toBe('\r\u001B[Kfirst\r\u001B[K\r\u001B[Ksecond');
  });

  test('is silent when stderr is no terminal', () => {
    const { stderr, out } = collect();
    out.progress('storing', 100).add(50);
    expect(stderr.text).toBe('');
  });

  test('what is used of a quota is in its unit, and shows that it is more than the quota', () => {
    expect(usedText(1_030_144, 1_000_000)).toBe('1.04 MB of 1 MB');
    expect(usedText(12_345_679, 12_345_678)).toBe('12345679 B of 12345678 B');
    const quotas = [1, 999, 1024, 1_000_000, 1.5 * 1024 ** 3, 12_345_678, 5e10];
    for (const quota of quotas)
      for (const used of [0, 1, quota / 2, quota - 1, quota, quota + 1, quota * 1.003, quota * 7].map(Math.round)) {
        const [, left, unit, right, same] = /^([0-9.]+) (\w+) of ([0-9.]+) (\w+)$/.exec(usedText(used, quota)) ?? [];
        expect({ used, quota, isMore: Number(left) > Number(right), same }).toEqual({
          used,
          quota,
          isMore: used > quota,
          same: unit,
        });
      }
  });

  test('sizes and times are for people', () => {
    expect([0, 1023, 1024, 1536, 100 * 1024, 1024 ** 4 * 5000].map(sizeText)).toEqual([
      '0 B',
      '1023 B',
      '1.0 KiB',
      '1.5 KiB',
      '100 KiB',
      '5000 TiB',
    ]);
    expect([0, 0.2, 59, 61, 3600, 7201].map(timeText)).toEqual(['0:00', '0:01', '0:59', '1:01', '1:00:00', '2:00:01']);
  });
});
