import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isCode } from '../../shared/errors.ts';
import { headings } from '../commands/index.ts';
import { localService } from './local.ts';
import { here } from './local/harness.ts';
import { missingTerminal } from './pty.ts';
import { Player, sessionPattern } from './transcript.ts';
import { temporaryDirectory } from './environment.ts';
import { itemOf, present } from '../../testkit/present.ts';
import { ci, long } from '../../testkit/long-run.ts';

const folder = join(import.meta.dirname, 'scripts');
const scripts = readdirSync(folder)
  .filter((name) => name.endsWith('.txt'))
  .map((name) => ({ name: name.slice(0, -4), text: readFileSync(join(folder, name), 'utf8') }));
const missing = missingTerminal();
const later = scripts.filter(
  ({ text }) => (!long && /^# form: long$/m.test(text)) || (!ci && /^# form: ci$/m.test(text)),
);
const inThisForm = scripts.filter((script) => !later.includes(script));
const played = inThisForm.filter(({ text }) => missing === undefined || !/^% /m.test(text));
const left = inThisForm.filter((script) => !played.includes(script));

const local = localService();

describe('transcript', () => {
  if (left.length > 0) test.skip(`${left.map(({ name }) => name).join(', ')} (not run: ${missing})`);

  if (later.length > 0) test.skip(`${later.map(({ name }) => name).join(', ')} (in the long form, or that of CI)`);

  test.each(played)('$name', async ({ text }) => {
    const directory = await temporaryDirectory();
    // A script that breaks off must not leave its service running.
    onTestFinished(
      async () => void (/ start /.test(text) && (await here(['stop'], { SEALPIN_HOME: join(directory, 'home') }))),
    );
    const needsService = /^# needs: service$/m.test(text);
    await new Player({ directory, home: needsService ? local.dataDir : join(directory, 'home') }).play(text);
  });
});

test('there is a transcript for every command', () => {
  for (const { name } of headings) expect(scripts.map((script) => script.name)).toContain(name.replace(' ', '-'));
});

test('there is a transcript for every error that the command line itself throws', () => {
  const room = join(import.meta.dirname, '..');
  const sources = readdirSync(room, { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.ts') && !/^(test|bench|local)\//.test(path),
  );
  const codes = new Set(
    sources.flatMap((path) =>
      Array.from(readFileSync(join(room, path), 'utf8').matchAll(/new SealpinError\(\s*'([a-z_]+)'/g), ([, code]) =>
        present(code),
      ),
    ),
  );
  // Made by signals, bugs, full disks and files that change, which a transcript cannot: killed,
  // output, full and input.test.ts; and by a machine without the memory for a password
  // (shared/test).
  for (const code of ['interrupted', 'internal', 'disk_full', 'file_changed', 'kdf_unavailable']) codes.delete(code);
  expect(codes.size).toBeGreaterThan(15);
  for (const code of codes) {
    expect(isCode(code)).toBe(true);
    expect(scripts.map((script) => script.name)).toContain(`error-${code}`);
  }
});

test('README.md shows a session as it is, in 80 columns', () => {
  const readme = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8');
  const shown = itemOf(present(/^```console\n([^]*?)\n```$/m.exec(readme)), 1);
  for (const line of shown.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  // A terminal goes on in the next line after 80 columns; what the command line breaks itself is
  // indented.
  const lines = shown.replaceAll(/^(.{80})\n(?! )/gm, '$1');
  expect(lines).toMatch(sessionPattern(present(scripts.find((script) => script.name === 'session')).text));
});
