/** The list of files, of a service that says something wrong, or never comes to an end. */
import { describe, expect, test } from 'vitest';
import { remember } from '../../files/history.ts';
import { hostile, json, someApiKey, storedFile } from '../hostile.ts';
import { Collector, run, temporaryDirectory } from '../environment.ts';
import { first } from '../../../testkit/present.ts';

const env = { SEALPIN_API_KEY: someApiKey };

describe('list', () => {
  test('shows the blob ID of the history where the service gives another one, and warns', async () => {
    const directory = await temporaryDirectory();
    const [ours, theirs] = [`bafkrei${'a'.repeat(52)}`, `bafkrei${'b'.repeat(52)}`];
    const stored = storedFile(theirs, 7);
    const service = await hostile({
      'GET /v1/storage': (_request, response) => json(response, 200, { files: [stored] }),
    });
    const entry = {
      v: 1,
      cid: ours,
      fileId: stored.fileId,
      service: `${service.url}/`,
      name: 'contract.pdf',
      bytes: 7,
    };
    await remember(directory, { ...entry, v: 1, at: stored.createdAt });
    const ran = await run(['list', '--service', service.url, '--data-dir', directory], directory, { env });
    expect(ran.stdout).toMatch(new RegExp(`^${ours}  .*  contract.pdf\n$`));
    expect(ran.stderr).toContain(`warning: the service reports another blob ID for contract.pdf (${theirs})`);
  });

  test('says in a column of its own what the service encrypted', async () => {
    const stored = { ...storedFile(`bafkrei${'a'.repeat(52)}`, 7), mode: 'encrypted', filename: 'a.txt' };
    const service = await hostile({
      'GET /v1/storage': (_request, response) => json(response, 200, { files: [stored] }),
    });
    const ran = await run(['list', '--service', service.url], await temporaryDirectory(), { env });
    expect(ran.stdout).toMatch(/ 7 B {2}encrypted {2}a\.txt\n$/);
  });

  describe('of two files', () => {
    const [sealed, plain] = [`bafkrei${'a'.repeat(52)}`, `bafybei${'b'.repeat(52)}`];
    const long = `${'very '.repeat(20)}long.pdf`;
    const expiresAt = '2030-01-31T00:00:00.000Z';
    const files = [
      { ...storedFile(sealed, 7), mode: 'encrypted', filename: 'Invoice e\u0301.txt', expiresAt },
      { ...storedFile(plain, 3_000_000), fileId: crypto.randomUUID(), createdAt: '2026-01-31T23:30:00.000Z' },
    ];

    /** Runs `list` at a terminal of some width, or elsewhere. */
    async function listed(flags: readonly string[], columns?: number) {
      const directory = await temporaryDirectory();
      const service = await hostile({
        'GET /v1/storage': (request, response) => {
          const mode = new URL(request.url ?? '', 'http://localhost').searchParams.get('mode');
          json(response, 200, { files: files.filter((file) => mode === null || file.mode === mode) });
        },
      });
      const [, { fileId, createdAt }] = files as [unknown, (typeof files)[1]];
      const own = { v: 1, cid: plain, fileId, service: `${service.url}/`, name: long, bytes: 3_000_000 } as const;
      await remember(directory, { ...own, at: createdAt });
      const stdout = new Collector();
      if (columns !== undefined) Object.assign(stdout, { isTTY: true, columns });
      const argv = ['list', '--service', service.url, '--data-dir', directory, ...flags];
      const ran = await run(argv, directory, { env, stdout });
      expect(ran.exit, ran.stderr).toBe(0);
      return { lines: ran.stdout.trimEnd().split('\n'), stderr: ran.stderr };
    }

    test.each([40, 80])(
      'fits a terminal of %i columns, blob IDs and commands apart, in local time',
      async (columns) => {
        const { lines } = await listed([], columns);
        for (const line of lines.filter((each) => !/^ {2}(?:baf|sealpin decrypt)/.test(each)))
          expect(line.length, line).toBeLessThanOrEqual(columns);
        for (const cid of [sealed, plain]) expect(lines).toContain(`  ${cid}`);
        expect(lines).toContain(`  sealpin decrypt ${first(files).fileId}`);
        const local = new Date('2026-01-31T23:30:00.000Z');
        const minutes = `${String(local.getHours()).padStart(2, '0')}:${String(local.getMinutes()).padStart(2, '0')}`;
        expect(lines.find((line) => line.includes('2.9 MiB'))).toContain(` ${minutes} `);
        expect(lines.find((line) => line.includes('very very'))).toMatch(/…$/);
      },
    );

    test('has one line for each, in UTC, for other programs', async () => {
      const { lines } = await listed([]);
      expect(lines).toHaveLength(2);
      expect(lines.join('\n')).toContain(`${plain}  2026-01-31 23:30    2.9 MiB  plain      ${long}`);
    });

    test('shows everything with --long, and those of a name or mode alone', async () => {
      const { lines } = await listed(['--name', 'invoice \u00c9', '--long']);
      expect(lines).toEqual([
        'Invoice e\u0301.txt',
        `  blob ID  ${sealed}`,
        `  file ID  ${first(files).fileId}`,
        expect.stringMatching(/^ {2}stored {3}\d{4}-\d\d-\d\d \d\d:\d\d$/) as unknown,
        expect.stringMatching(/^ {2}expires {2}2030-01-3[01] \d\d:\d\d$/) as unknown,
        '  size     7 B',
        `  mode     encrypted (by the service: sealpin decrypt ${first(files).fileId})`,
        expect.stringContaining('  service  http://127.0.0.1') as unknown,
      ]);
      expect((await listed(['--name', 'very', '--long'])).lines).toContain('  size     2.9 MiB (3000000 B)');
      const { files: rows } = JSON.parse((await listed(['--json'])).lines.join('')) as { files: object[] };
      expect(rows.map((row) => 'expiresAt' in row && row.expiresAt)).toContain(expiresAt);
      expect((await listed(['--mode', 'encrypted'])).lines.join()).not.toContain(plain);
      expect((await listed(['--mode', 'plain'])).lines).toHaveLength(1);
      expect((await listed(['--name', 'nothing like it'])).stderr).toContain('no file matches');
    });

    test('refuses another mode', async () => {
      const ran = await run(['list', '--mode', 'secret'], await temporaryDirectory(), { env });
      expect(ran).toMatchObject({
        exit: 2,
        stderr: expect.stringContaining('--mode must be encrypted or plain') as unknown,
      });
    });
  });

  test.each([{ argv: ['list'] }, { argv: ['delete', `bafkrei${'a'.repeat(52)}`] }])(
    'a service that returns empty pages without end fails: $argv',
    async ({ argv }) => {
      let page = 0;
      const service = await hostile({
        'GET /v1/storage': (_request, response) => json(response, 200, { files: [], cursor: String((page += 1)) }),
      });
      const directory = await temporaryDirectory();
      const ran = await run([...argv, '--service', service.url, '--data-dir', directory], directory, { env });
      expect(ran).toMatchObject({ exit: 6, stdout: '' });
      expect(ran.stderr).toContain("the service's list never ends: it returns empty pages");
      expect(page).toBe(101);
    },
  );

  test('reads on behind empty pages, which a filter that matches few of many files has', async () => {
    let page = 0;
    const cid = `bafkrei${'a'.repeat(52)}`;
    const service = await hostile({
      'GET /v1/storage': (_request, response) => {
        page += 1;
        if (page < 20) return json(response, 200, { files: [], cursor: String(page) });
        return json(response, 200, { files: [storedFile(cid, 1)] });
      },
    });
    const directory = await temporaryDirectory();
    const ran = await run(['list', '--service', service.url, '--data-dir', directory], directory, { env });
    expect(ran).toMatchObject({ exit: 0, stdout: expect.stringContaining(cid) as unknown });
  });

  test('a service that returns files of one blob without end fails', async () => {
    let page = 0;
    const cid = `bafkrei${'a'.repeat(52)}`;
    const files = Array.from({ length: 100 }, () => storedFile(cid, 1));
    const service = await hostile({
      'GET /v1/storage': (_request, response) => json(response, 200, { files, cursor: String((page += 1)) }),
    });
    const ran = await run(['delete', cid, '--service', service.url], await temporaryDirectory(), { env });
    expect(ran).toMatchObject({ exit: 6, stdout: '' });
    expect(ran.stderr).toContain('more than 10000 files with this blob ID');
    expect(service.seen.every(({ method }) => method === 'GET')).toBe(true);
    expect(page).toBe(101);
  });
});
