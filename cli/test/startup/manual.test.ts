import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadCommands } from '../../commands/index.ts';
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

/** The flags that the tables of a text name. */
const flagsIn = (text: string): string[] =>
  Array.from(text.matchAll(/^\| (`--.*?) \|/gm), ([, cell]) =>
    Array.from(present(cell).matchAll(/`--([a-z-]+)/g), ([, name]) => present(name)),
  )
    .flat()
    .toSorted();

test('the manual and the code name the same commands, in the same order', () => {
  expect([...sections.keys()]).toEqual(loaded.map(({ name }) => name));
  for (const { name } of loaded) expect(manual).toContain(`[${name}](#sealpin-${name.replace(' ', '-')})`);
});

describe.each(loaded)('sealpin $name', (command) => {
  test('has its synopsis in the manual', () => {
    expect(sections.get(command.name)).toContain(`\n\`${synopsis(command)}\`\n`);
  });

  test('has its flags in the manual, and no others', () => {
    const own = Object.entries(command.args).flatMap(([name, arg]) =>
      arg.type === 'positional' || common.includes(name) ? [] : [name],
    );
    expect(flagsIn(present(sections.get(command.name)))).toEqual(own.toSorted());
  });

  test('has flags with the values that the manual says', () => {
    for (const [name, arg] of Object.entries(command.args))
      if (arg.type === 'string') expect(manual).toContain(`--${name} <${arg.valueHint}>\``);
  });
});

test('the manual describes the common flags once', () => {
  expect([...flagsIn(commonText), 'service', 'profile'].toSorted()).toEqual([...common, 'help'].toSorted());
  expect(commonText).toContain('`--service <url>` or `--profile <name>`');
});

test('each variable that is read is in the manual, and no other', () => {
  const folder = join(import.meta.dirname, '../..');
  const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !/^(test|bench)\b/.test(name))
    .map((name) => readFileSync(join(folder, name), 'utf8'))
    .join('\n');
  const read = new Set(
    [/\benv\??\.?\[\s*'(\w+)'\s*\]/g, /\b(SEALPIN_[A-Z_]+)\b/g].flatMap((form) =>
      Array.from(sources.matchAll(form), ([, name]) => present(name)),
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
