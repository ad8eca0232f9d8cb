/** The examples of `--help` run as they stand, on what they name. */
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { connect } from '../../../client/index.ts';
import { first, present } from '../../../testkit/present.ts';
import { long } from '../../../testkit/long-run.ts';
import { loadCommands } from '../../commands/index.ts';
import { run, temporaryDirectory, type Ran } from '../environment.ts';
import { localService } from '../local.ts';

const local = localService();
const password = 'violet-anchor-tundra-mosaic';

/**
 * A process, another service, or somebody at a terminal is their subject: other tests are of them.
 */
const apart = /^(?:start|stop|rebuild|migrate|completions|key restore|account rotate)\b|--follow|--password$|--protect/;
/** These are for who has the data directory of the service. */
const ofOperator = /^(?:account|repair|service backup|status|doctor)\b/;
/** These make what must not be there yet. */
const fresh = /^(?:keygen|service restore)\b/;

let desk: string;
const sealpin = (words: readonly string[], stdin = ''): Promise<Ran> => {
  const line = words.join(' ');
  const dataDir = ofOperator.test(line) ? local.dataDir : fresh.test(line) ? crypto.randomUUID() : 'home';
  const isLocal = dataDir === local.dataDir;
  const env = {
    SEALPIN_PASSWORD: password,
    ...(!isLocal && { SEALPIN_SERVICE: `${local.url}/`, SEALPIN_API_KEY: local.apiKey }),
  };
  return run([...words, '--data-dir', dataDir], desk, { stdin, env });
};
async function printed(...words: string[]): Promise<string> {
  const ran = await sealpin([...words, '--quiet']);
  expect(ran.exit, `${words.join(' ')}: ${ran.stderr}`).toBe(0);
  return ran.stdout.trim();
}
const listed = async (command: string, what: string): Promise<string> =>
  first((JSON.parse(await printed(...command.split(' '), '--json')) as Record<string, { id: string }[]>)[what] ?? [])
    .id;
const made = async (...words: string[]): Promise<{ account: { id: string }; key: { id: string }; apiKey: string }> =>
  JSON.parse(await printed(...words, '--json')) as Awaited<ReturnType<typeof made>>;
const encrypted = async (): Promise<string> =>
  (await connect({ service: local.url, apiKey: local.apiKey }).put('Dear Ann', { name: 'letter.txt' })).fileId;
async function delivered(): Promise<string> {
  await printed('send', 'letter.pdf', '--inbox', await printed('inbox', 'create', 'tax'));
  return listed('inbox list', 'deliveries');
}
async function shared(): Promise<string> {
  await printed('send', 'letter.pdf');
  return listed('shares', 'shares');
}
/** What a private key opens is encrypted to it. */
const toKeys = (line: string): string[] =>
  line.startsWith('ecc-decrypt') ? ['--to', 'bob/public.key,home/public.key'] : [];
async function keyId(line: string): Promise<string> {
  if (line.includes('inbox')) return printed('inbox', 'create', 'tax');
  return line.includes('invite') ? printed('invite', 'create') : (await made('key', 'create', 'phone')).key.id;
}

/** What stands for a value in examples, and what makes one. */
const placeholders: readonly (readonly [RegExp, (line: string) => Promise<string>])[] = [
  [/https:\/\/sealpin\.example\.com\/s#1…/, () => printed('send', 'photos')],
  [/https:\/\/…\/drop#sp_…/, () => printed('inbox', 'create', 'tax')],
  [/https:\/\/sealpin\.example\.com/, async () => local.url],
  [
    /baf(?:krei|ybei)…/,
    (line) => printed('encrypt', /--extract|--path|tar/.test(line) ? 'photos' : 'letter.pdf', ...toKeys(line)),
  ],
  [/6f1c(?:2d3e-)?…/, encrypted],
  [/0b6f7c1e-…/, (line) => (line.startsWith('share') ? encrypted() : delivered())],
  [/7n42DGM5Tflk9n8mt7Fhc7/, shared],
  [/9f2c(?:0d6be1a74583|…)/, keyId],
  [/7Xy0…/, async () => (await made('account', 'create', 'press')).account.id],
  [/age1tag1…/, () => printed('keygen', '--output', crypto.randomUUID())],
  [/\/media\/disk/, async () => 'disk'],
];

/** The words of an example, with what they name. */
async function wordsOf(command: string, line: string): Promise<string[]> {
  let own = present(line.split(/ (?:\||&&) /).find((part) => part.includes(`sealpin ${command}`)))
    .replace(/.*?sealpin /, '')
    .replace(/ > .*|\)$/, '');
  for (const [form, make] of placeholders) while (form.test(own)) own = own.replace(form, await make(line));
  return Array.from(own.matchAll(/'([^']*)'|(\S+)/g), ([, quoted, bare]) => quoted ?? present(bare));
}

/** Makes what the examples name. */
async function prepare(): Promise<void> {
  desk = await temporaryDirectory();
  for (const folder of ['photos/summer', 'disk']) await mkdir(join(desk, folder), { recursive: true });
  for (const name of ['letter.pdf', 'plans.tif', 'notes.txt', 'receipts.pdf', 'photos/summer/a.jpg'])
    await writeFile(join(desk, name), name);
  await writeFile(join(desk, 'pass.txt'), password);
  await run(['keygen', '--quiet', '--data-dir', 'home'], desk);
  for (const who of ['ann', 'ben', 'bob']) {
    await printed('keygen', '--output', who);
    if (who !== 'bob') await printed('contact', 'add', who, `${who}/public.key`);
  }
  for (const [to, from] of [
    ['ann-public.key', 'ann'],
    ['research-public.key', 'ann'],
    ['alice.key', 'ann'],
    ['bob.key', 'bob'],
  ] as const)
    await copyFile(join(desk, from, 'public.key'), join(desk, to));
  for (const name of ['work', 'home', 'new']) {
    const { apiKey } = await made('account', 'create', name);
    const argv = ['login', local.url, '--name', name, '--data-dir', 'home'];
    expect((await run(argv, desk, { stdin: apiKey })).exit).toBe(0);
  }
  await printed('export', await printed('encrypt', 'notes.txt'), 'letter.car');
  await printed('encrypt', 'letter.pdf', '--age', '--output', 'letter.age');
  for (const words of [['backup'], ['service', 'backup']]) await printed(...words, `disk/${words[0]}`);
}

/** What an example writes, or asks for, is another one's, too: each has its own. */
async function refusalOf(command: string, line: string): Promise<string | undefined> {
  const words = await wordsOf(command, line);
  const stdin = command === 'login' ? (await made('key', 'create', 'login')).apiKey : 'Dear Ann';
  const free = ['decrypt', 'ecc-decrypt', 'export', 'encrypt', 'ecc-encrypt', 'key export', 'contact add'];
  const force = free.includes(command) && /\S\.(?:pdf|jpg|car|sealpin|age|key)$|contact/.test(line) ? ['--force'] : [];
  const ran = await sealpin([...words, ...(/--output|contact|decrypt|export/.test(line) ? force : [])], stdin);
  return ran.exit === 0 ? undefined : `${line}: ${ran.exit} ${ran.stderr}`;
}

test('each example of the help works as it stands', { timeout: 600_000 }, async () => {
  await prepare();
  const lines = (await loadCommands()).flatMap(({ name, examples }) =>
    examples.flatMap(({ command: line }) => (apart.test(line.replace(/.*?sealpin /, '')) ? [] : [{ name, line }])),
  );
  expect(lines.length).toBeGreaterThan(70);
  // All of them take a minute.
  const some = lines.filter((_, index) => long || index % 12 === 0);
  const refused: (string | undefined)[] = [];
  for (const { name, line } of some)
    refused.push(await refusalOf(name, line).catch((error: unknown) => `${line}: ${String(error)}`));
  expect(refused.filter((each) => each !== undefined)).toEqual([]);
});
