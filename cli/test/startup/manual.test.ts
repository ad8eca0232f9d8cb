import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadCommand, loadCommands } from '../../commands/index.ts';
import { synopsis } from '../../help/usage.ts';
import { first, present } from '../../../testkit/present.ts';

const manual = readFileSync(join(import.meta.dirname, '../..', 'README.md'), 'utf8');
const loaded = await loadCommands();
/** The text of each command, by its name. */
const sections = new Map(
  manual
    .split(/^### sealpin /m)
    .slice(1)
    .map((text) => [text.slice(0, text.indexOf('\n')), first(text.split(/^## /m))]),
);
const commonText = manual.slice(manual.indexOf('Every command accepts'), manual.indexOf('### sealpin start'));
const common = ['json', 'quiet', 'data-dir', 'service', 'profile'];

const pages = readdirSync(join(import.meta.dirname, '../../manual'));
const pageTexts = pages.map((name) => readFileSync(join(import.meta.dirname, '../../manual', name), 'utf8'));

/** The flags that the tables of a text name. */
const flagsIn = (text: string): string[] =>
  Array.from(text.matchAll(/^\| (`--.*?) \|/gm), ([, cell]) =>
    Array.from(present(cell).matchAll(/`--([a-z-]+)/g), ([, name]) => present(name)),
  )
    .flat()
    .toSorted();

const folder = join(import.meta.dirname, '../..');
const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !/^(test|bench)\b/.test(name))
  .map((name) => readFileSync(join(folder, name), 'utf8'));

test('the manual and the code name the same commands, in the same order', () => {
  expect([...sections.keys()]).toEqual(loaded.map(({ name }) => name));
});

describe.each(loaded)('sealpin $name', (command) => {
  test('has its synopsis in the manual', () => {
    expect(sections.get(command.name)).toContain(`\n\`${synopsis(command)}\`\n`);
  });

  test('has what the manual says of its own flags', () => {
    const text = present(sections.get(command.name));
    const others = text.replaceAll(/`(?:sealpin )?[a-z]+(?: [a-z-]+)* --[^`]*`|\[[^\]]*\]\([^)]*\)|```[^]*?```/g, '');
    const named = Array.from(others.matchAll(/`--([a-z-]+)/g), ([, name]) => present(name));
    for (const name of named) expect(Object.keys(command.args), name).toContain(name);
  });
});

test('each command line of the manual is one that its command takes', async () => {
  const lines = [manual, ...pageTexts]
    .flatMap((text) => Array.from(text.matchAll(/^```sh\n([^]*?)^```/gm), ([, block]) => present(block).split('\n')))
    .flat()
    .flatMap((line) => Array.from(line.matchAll(/(?:^|[\s(&|;])sealpin ([^#|&;)>]*)/g), ([, words]) => present(words)));
  expect(lines.length).toBeGreaterThan(60);
  for (const line of lines) {
    const words = Array.from(
      line.replace(/ [<>] .*/, '').matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g),
      ([, one, two, bare]) => one ?? two ?? present(bare),
    );
    const command = (await loadCommand(words[0] ?? '')) ?? (await loadCommand(words.slice(0, 2).join(' ')));
    expect(command, line).toBeDefined();
    const own = words.slice(present(command).name.split(' ').length);
    expect(() => present(command).parse(own), line).not.toThrow();
  }
});

test('each command line of a message is one that its command takes', () => {
  // Behind a colon it is to be copied, where the sentence does not go on with it.
  const args = String.raw`((?: ?(?:--[a-z-]+|<[^>]*>|\$\{[^}]*\}|-))*)`;
  const count = loaded.map((command) => {
    const form = new RegExp(`: sealpin ${command.name}(?! [a-z])${args}(?=['\`"]|; |, | \\(| \\|)`, 'g');
    const lines = sources.flatMap((text) => Array.from(text.matchAll(form), ([, line]) => present(line)));
    for (const line of lines) {
      const words = line
        .replaceAll(/<[^>]*>|\$\{[^}]*\}/g, 'x')
        .split(' ')
        .slice(1);
      if (!words.includes('--help')) expect(() => command.parse(words), `${command.name}${line}`).not.toThrow();
    }
    return lines.length;
  });
  expect(count.reduce((sum, each) => sum + each, 0)).toBeGreaterThan(40);
});

test('the manual describes the common flags once', () => {
  expect([...flagsIn(commonText), 'service', 'profile'].toSorted()).toEqual([...common, 'help'].toSorted());
  expect(commonText).toContain('`--service <url>` or `--profile <name>`');
});

test('each variable that is read is in the manual, and no other', () => {
  const read = new Set(
    [/\benv\??\.?\[\s*'(\w+)'\s*\]/g, /\b(SEALPIN_[A-Z_]+)\b/g].flatMap((form) =>
      Array.from(sources.join('\n').matchAll(form), ([, name]) => present(name)),
    ),
  );
  expect(read).toContain('SEALPIN_PASSWORD');
  // Set by npm, and by the local service for its workerd; not by people.
  for (const name of ['npm_lifecycle_event', 'SEALPIN_STATE_DIR']) expect(read.delete(name)).toBe(true);
  const table = first(manual.slice(manual.indexOf('| variable |')).split('\n\n'));
  const described = new Set(
    Array.from(table.matchAll(/^\| (`.*?) \|/gm), ([, cell]) =>
      Array.from(present(cell).matchAll(/`([A-Z_]+)`/g), ([, name]) => present(name)),
    ).flat(),
  );
  // Node itself reads this one.
  expect(described.delete('NODE_EXTRA_CA_CERTS')).toBe(true);
  expect([...described].toSorted()).toEqual([...read].toSorted());
});
