/** Signatures from the command line: who is named, when, and why one does not count. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { parseLink, printLink } from '../../../shared/link/index.ts';
import { run, temporaryDirectory, type Ran } from '../environment.ts';
import { localService } from '../local.ts';

const local = localService();
let desk: string;
beforeEach(async () => {
  desk = await temporaryDirectory();
  await writeFile(join(desk, 'letter.txt'), 'Dear Ann\n');
  await sealpin(['keygen']);
});

const sealpin = (argv: readonly string[], home = 'home'): Promise<Ran> =>
  run([...argv, '--data-dir', home], desk, {
    env: { SEALPIN_SERVICE: `${local.url}/`, SEALPIN_API_KEY: local.apiKey },
  });

/** Output of a command that succeeds. */
async function printed(argv: readonly string[], home?: string): Promise<string> {
  const ran = await sealpin([...argv, '--quiet'], home);
  expect(ran, ran.stderr).toMatchObject({ exit: 0 });
  return ran.stdout.trim();
}

const receive = (link: string, home = 'reader'): Promise<Ran> =>
  run(['receive', link, 'got', '--data-dir', home], desk, { env: {} });

type Json = Record<string, unknown>;

describe('a signature', () => {
  test('names the contact, or six words that are compared once, or says why it does not count', async () => {
    await printed(['keygen'], 'ann');
    const link = await printed(['send', 'letter.txt', '--sign', '--from', 'Ann'], 'ann');
    const unknown = await receive(link);
    const [, words = ''] =
      /none of your contacts: ([a-z]+(?:-[a-z]+){5})/.exec(unknown.stderr.replaceAll(/\s+sealpin: +|\n +/g, ' ')) ?? [];
    expect(words).not.toBe('');
    const [, signer = ''] = /contact add <name> (sealpin-signer1\w+)/.exec(unknown.stderr) ?? [];
    expect((await sealpin(['contact', 'add', 'ann', signer], 'reader')).stderr).toContain(words);
    expect((await receive(link)).stderr).toContain('signed by ann\n');
    expect((await sealpin(['contact', 'list'], 'reader')).stdout).toContain(`ann  ${words} (signs)`);
    // The same parcel at another share.
    const { id, secret } = parseLink(link).link as { id: string; secret: Uint8Array };
    const { record } = (await (await fetch(`${local.url}/v1/shares/${id}/open`, { method: 'POST' })).json()) as {
      record: string;
    };
    const body = JSON.stringify({ record, files: [], password: false });
    const headers = { authorization: `Bearer ${local.apiKey}`, 'content-type': 'application/json' };
    const again = (await (await fetch(`${local.url}/v1/shares`, { method: 'POST', headers, body })).json()) as {
      id: string;
    };
    const replayed = await receive(printLink({ kind: 'share', service: `${local.url}/`, id: again.id, secret }));
    expect(replayed.stderr.replaceAll(/\n\s*(?:sealpin:)?\s+/g, ' ')).toContain(
      'ann signed it for another link or inbox, and somebody passed it on',
    );
    expect(replayed.exit).toBe(0);
    // The ID of a share that there is makes no other.
    const taken = await fetch(`${local.url}/v1/shares`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ id, record, files: [], password: false }),
    });
    expect(taken.status).toBe(409);
    expect((await receive(link)).exit).toBe(0);
  });

  test('is asked for by a flag or a profile, and nobody else signs', async () => {
    expect((await receive(await printed(['send', 'letter.txt', '--from', 'Ann']))).stderr).toContain(
      'from Ann (as they say; not signed)',
    );
    const profile = { service: `${local.url}/`, apiKey: local.apiKey, sign: true };
    await sealpin(['profile', 'list']);
    await run(['login', `${local.url}/`, '--data-dir', 'home'], desk, { stdin: `${local.apiKey}\n`, env: {} });
    const path = join(desk, 'home/profiles/profiles.json');
    const kept = JSON.parse(await readFile(path, 'utf8')) as { profiles: Json; current: string };
    await writeFile(path, JSON.stringify({ ...kept, profiles: { [kept.current]: profile } }));
    const ran = await run(['send', 'letter.txt', '--quiet', '--data-dir', 'home'], desk, { env: {} });
    expect((await receive(ran.stdout.trim())).stderr).toContain('signed by a key');
    expect(await sealpin(['send', 'letter.txt', '--sign'], 'keyless')).toMatchObject({ exit: 3 });
  });
});
