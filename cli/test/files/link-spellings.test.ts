/** Links as mail programs and messengers hand them on, given to every command that takes one. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { keyIdOf, newAccountId, newApiKey } from '../../../shared/crypto/index.ts';
import { printLink, type Link } from '../../../shared/link/index.ts';
import { pair } from '../containers.ts';
import { run, temporaryDirectory, type Ran } from '../environment.ts';
import { health, hostile, json, someApiKey, type Hostile } from '../hostile.ts';

const id = '7n42DGM5Tflk9n8mt7Fhc7';
const cid = 'bafkreiaaaebagbafaydqqcikbmga2dqpcaireeyuculbogazdinryhi6d4';
const key = await newApiKey(newAccountId());
const keyId = keyIdOf(key.hash);

/** What each kind of link leads to. */
const parts = {
  share: { kind: 'share', id, secret: new Uint8Array(32).fill(3) },
  blob: { kind: 'blob', cid, fileKey: new Uint8Array(32).fill(3) },
  inbox: { kind: 'inbox', apiKey: key.text, recipient: pair.recipient },
  invitation: { kind: 'invitation', apiKey: key.text },
} as const;
const linkOf = (kind: Link['kind'], service: string): string => printLink({ ...parts[kind], service });

/** A command with a link, and the first request that shows that the link was read. */
type Taking = { readonly kind: Link['kind']; argv(link: string): string[]; readonly asks: string };
const commands: Record<string, Taking> = {
  receive: { kind: 'share', argv: (link) => ['receive', link], asks: `GET /v1/shares/${id}` },
  'receive, of a blob': { kind: 'blob', argv: (link) => ['receive', link], asks: `GET /ipfs/${cid}` },
  decrypt: { kind: 'share', argv: (link) => ['decrypt', link, 'out'], asks: `GET /v1/shares/${id}` },
  'decrypt, of a blob': { kind: 'blob', argv: (link) => ['decrypt', link, 'out'], asks: `GET /ipfs/${cid}` },
  unshare: { kind: 'share', argv: (link) => ['unshare', link], asks: `DELETE /v1/shares/${id}` },
  'shares change': {
    kind: 'share',
    argv: (link) => ['shares', 'change', link, '--opens', '3'],
    asks: `PATCH /v1/shares/${id}`,
  },
  'send --inbox': { kind: 'inbox', argv: (link) => ['send', 'letter', '--inbox', link], asks: 'GET /v1/account' },
  'inbox revoke': { kind: 'inbox', argv: (link) => ['inbox', 'revoke', link], asks: `DELETE /v1/keys/${keyId}` },
  'invite revoke': { kind: 'invitation', argv: (link) => ['invite', 'revoke', link], asks: `DELETE /v1/keys/${keyId}` },
};

const around = ['LINK', '<LINK>', '“LINK”.', ' \nLINK\r\n'];
const marks = ['#', '?utm_source=mail&x=1#', '/#', '%23'];
/** Ways to write a link; what programs append is behind every second one. */
const spellings = around.flatMap((text, row) =>
  marks.map((mark, column) => ({ text, mark, more: (row + column) % 2 === 0 ? '' : '&utm_source=mail' })),
);

const scopes = { share: 'share', blob: 'read', inbox: 'write', invitation: 'send' } as const;

/** A service that has the key of a link, and answers little else. */
function serviceWith(kind: Link['kind'], ...keyIds: string[]): Promise<Hostile> {
  const createdAt = '2026-01-02T03:04:05.000Z';
  const about = { account: '0'.repeat(22), label: 'guest', scopes: [scopes[kind]], createdAt, createdBy: null };
  return hostile({
    'GET /v1/health': health(),
    'GET /v1/keys': (_request, response) =>
      json(response, 200, { keys: keyIds.map((each) => ({ id: each, ...about })) }),
  });
}

/** Runs a command with an API key of its own for the service. */
async function given(argv: readonly string[], service: string): Promise<Ran> {
  const home = await temporaryDirectory();
  await writeFile(join(home, 'letter'), 'Dear Ann\n');
  const env = { SEALPIN_SERVICE: service, SEALPIN_API_KEY: someApiKey };
  return run([...argv, '--data-dir', join(home, 'data')], home, { env });
}

describe.each(Object.entries(commands))('%s takes a link', (_name, { kind, argv, asks }) => {
  test.each(spellings)('as $text, with $mark and then "$more"', async ({ text, mark, more }) => {
    const { url, seen } = await serviceWith(kind, keyId);
    const link = linkOf(kind, `${url}/`).replace('#', mark) + more;
    const { stderr } = await given(argv(text.replace('LINK', link)), url);
    expect(
      seen.map((each) => `${each.method} ${each.url}`.slice(0, asks.length)),
      stderr,
    ).toContain(asks);
  });

  test('and says of one that was cut off that it is incomplete', async () => {
    const { url, seen } = await serviceWith(kind, keyId);
    const ran = await given(argv(`<${linkOf(kind, `${url}/`).slice(0, -1)}>`), url);
    expect(ran).toMatchObject({ exit: 2, stderr: expect.stringContaining('incomplete') as string });
    expect(seen).toEqual([]);
  });

  test('and says nothing of it to another service', async () => {
    const own = await serviceWith(kind);
    const { url } = await serviceWith(kind, keyId);
    const ran = await given(argv(linkOf(kind, `${url}/`)), own.url);
    const told = JSON.stringify(own.seen);
    for (const part of [id, cid, key.text, keyId]) expect(told, ran.stderr).not.toContain(part);
  });
});

describe.each(['inbox', 'invitation'] as const)('the link of an %s is revoked', (kind) => {
  const argv = [kind === 'inbox' ? 'inbox' : 'invite', 'revoke'];
  const elsewhere = 'https://files.example.com/';

  test.each(['', elsewhere])('by the ID of its key, which is sent to nobody (%s)', async (address) => {
    const { url, seen } = await serviceWith(kind, keyId);
    const ran = await given([...argv, linkOf(kind, address || `${url}/`)], url);
    expect(
      seen.map((each) => `${each.method} ${each.url}`),
      ran.stderr,
    ).toEqual(['GET /v1/keys', expect.stringMatching(`^DELETE /v1/keys/${keyId}`)]);
    expect(JSON.stringify(seen)).not.toContain(key.text);
  });

  test('only by a service that has its key', async () => {
    const { url, seen } = await serviceWith(kind);
    const foreign = await given([...argv, linkOf(kind, elsewhere)], url);
    expect(foreign).toMatchObject({ exit: 2, stderr: expect.stringContaining(`link is of ${elsewhere}`) as string });
    const own = await given([...argv, linkOf(kind, `${url}/`)], url);
    expect(own).toMatchObject({ exit: 3, stderr: expect.stringContaining(`has no ${kind}`) as string });
    expect(JSON.stringify(seen)).not.toContain(key.text);
  });
});
