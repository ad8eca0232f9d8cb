/**
 * A service that gives other bytes, or another account: what its clients notice. `docs/attacks.md`
 * has a row for each test, by its name.
 */
import { randomBytes } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { connect, generateKeys, seal } from '../../../client/index.ts';
import { encrypt, parseRecipients, passwordRecipient } from '../../../shared/crypto/index.ts';
import { carHeader, carSection, parseCid } from '../../../shared/ipfs/index.ts';
import { type ProxyFault, faultyProxy } from '../../../testkit/faulty-proxy.ts';
import { present } from '../../../testkit/present.ts';
import { startNode } from '../../../testkit/node.ts';
import { adminToken, rpcToken, startService } from '../../../testkit/service.ts';
import { temporaryDirectory } from '../environment.ts';
import { answering, codeOf, isSaid, type Json, type Lie, rewriting, victim } from './victim.ts';

const user = victim();
const { local, sealpin, printed, refusal, receive } = user;
const files = () => connect({ service: local.url, apiKey: local.apiKey });
/** Answers for a blob of one leaf with other bytes, in the form that is asked for. */
const blobOf = (id: string, bytes: Uint8Array): Lie => {
  const cid = parseCid(id);
  return answering(
    ({ path }) => path.startsWith(`/ipfs/${id}`),
    Buffer.concat([carHeader(cid), carSection(cid, bytes.length), bytes]),
  );
};
const bytesOf = async (cid: string): Promise<Buffer> =>
  Buffer.from(await (await fetch(`${local.url}/ipfs/${cid}`)).arrayBuffer());

describe('a lying service', () => {
  test('recovery file replaced', async () => {
    const recoveryKey = await readFile(join(user.desk, 'home/public.key'), 'utf8');
    const [own, attackers] = [await newAccount(), await newAccount()];
    const env = { SEALPIN_API_KEY: own.apiKey };
    const stored = await sealpin(['encrypt', 'letter.txt', '--quiet'], 'home', env);
    expect((await sealpin(['backup', 'copy'], 'home', env)).exit).toBe(0);
    // A file that anybody seals to the recovery key: an honest service takes no such text.
    const text = `# recovery: ${'a'.repeat(43)}\n${(await generateKeys()).privateKey}`;
    const forged = await seal(text, { to: { keys: recoveryKey } });
    user.lie = answering(({ path }) => path.endsWith('/recovery'), await forged.bytes());
    expect(await recover(own.id)).toMatchObject({ status: 403 });
    // The file of an account of the attacker, who keeps its first API key, under the name of one's
    // own.
    user.lie = (request) =>
      request.path.startsWith(`/v1/accounts/${own.id}/`)
        ? { kind: 'rewrite', rewrite: async (answer) => ({ ...answer, ...(await elsewhere(attackers.id, request)) }) }
        : named(request);
    const named = rewriting(
      ({ path }) => path === '/v1/account',
      (value) => ({ ...value, account: { ...(value['account'] as Json), id: own.id } }),
    );
    const { status, body } = await recover(own.id);
    expect(status).toBe(201);
    const recovered = { SEALPIN_API_KEY: (JSON.parse(body) as { apiKey: string }).apiKey };
    // It lists another account, and a machine that does not know the files does not notice.
    expect((await sealpin(['list'], 'another', recovered)).stdout).not.toContain(stored.stdout.trim());
    isSaid('A recovery file is sealed to the recovery key, and not signed');
    // The folder of a backup knows the account and its key.
    expect(codeOf(await sealpin(['backup', 'copy', '--json'], 'another', recovered))).toBe('conflict');
    expect((await sealpin(['list'], 'home', recovered)).stdout).toMatch(
      new RegExp(`^${stored.stdout.trim()} .* gone `),
    );
  });

  const newAccount = async (): Promise<{ id: string; apiKey: string }> => {
    const { account, apiKey } = await local.newAccount('--recovery', join(user.desk, 'home/public.key'));
    return { id: account.id, apiKey };
  };
  let posted = '';
  /** Recovers an account as the manual of the service says. */
  const recover = async (id: string): Promise<{ status: number; body: string }> => {
    const file = await fetch(`${user.url}/v1/accounts/${id}/recovery`);
    await writeFile(join(user.desk, 'recovery.age'), Buffer.from(await file.arrayBuffer()));
    const privateKey = await printed(['ecc-decrypt', './recovery.age', '-', 'home/private.key']);
    posted = JSON.stringify({ privateKey: `${privateKey}\n` });
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${user.url}/v1/accounts/${id}/recover`, { method: 'POST', headers, body: posted });
    return { status: answer.status, body: await answer.text() };
  };
  /** What another account answers to the same request. */
  const elsewhere = async (id: string, { method, path }: Parameters<Lie>[0]) => {
    const address = `${local.url}${path.replace(/accounts\/\w+/, `accounts/${id}`)}`;
    const body = method === 'POST' ? posted : null;
    const answer = await fetch(address, { method, body, headers: { 'content-type': 'application/json' } });
    return { status: answer.status, body: Buffer.from(await answer.arrayBuffer()) };
  };

  test('blocks swapped', async () => {
    const [id, second] = [await printed(['encrypt', 'letter.txt']), await printed(['encrypt', 'letter.txt'])];
    user.lie = blobOf(id, await bytesOf(second));
    expect(await refusal(['decrypt', id, 'got'])).toBe('content_mismatch');
    expect(await refusal(['verify', id])).toBe('content_mismatch');
    expect(await readdir(user.desk)).not.toContain('got');
    // The right bytes in the same form are not refused.
    user.lie = blobOf(id, await bytesOf(id));
    await printed(['verify', id]);
  });

  test('migration to a lying backend', async () => {
    let fault: ProxyFault | undefined;
    const lost = JSON.stringify({
      Message: 'block was not found locally (offline): ipld: could not find node',
      Code: 0,
    });
    const second = await startNode({ dir: await temporaryDirectory(), token: rpcToken });
    onTestFinished(() => second.close());
    const { url: lying } = await faultyProxy(
      () => second.url,
      ({ path }) => (/cat|block\/get|export/.test(path) ? fault : undefined),
    );
    const kubo = { type: 'kubo', tokenSecret: 'KUBO_TOKEN' };
    const node = await startNode({ dir: await temporaryDirectory(), token: rpcToken });
    onTestFinished(() => node.close());
    const backends = [
      { id: 'honest', ...kubo, url: node.url },
      { id: 'lying', ...kubo, url: lying },
    ];
    const service = await startService({ node, vars: { PINNING_SERVICES: JSON.stringify(backends) } });
    onTestFinished(() => service.close());
    const { apiKey } = await service.account();
    const env = { SEALPIN_SERVICE: `${service.url}/`, SEALPIN_API_KEY: apiKey, SEALPIN_ADMIN_TOKEN: adminToken };
    const there = (...argv: string[]) => sealpin(argv, 'home', env);
    const id = (await there('encrypt', 'letter.txt', '--quiet')).stdout.trim();
    const moved = await there('migrate', 'honest', 'lying');
    expect(moved.exit, moved.stderr).toBe(0);
    expect((await there('verify', '--all')).exit).toBe(0);
    // The service still calls it pinned, and the backend has other bytes, or none.
    for (fault of [
      { kind: 'flip', atByte: 80 },
      { kind: 'answer', status: 500, body: lost },
    ] satisfies ProxyFault[]) {
      const code = fault.kind === 'flip' ? 'content_mismatch' : 'pinning_lost';
      expect(codeOf(await there('verify', id, '--json'))).toEqual(code);
      expect(codeOf(await there('decrypt', id, 'got', '--json'))).toEqual(code);
      const all = await there('verify', '--all', '--json');
      expect({ exit: all.exit, named: all.stdout.includes(id) }, all.stderr).toEqual({
        exit: fault.kind === 'flip' ? 5 : 3,
        named: true,
      });
    }
    expect((await there('list')).stdout).toContain(id);
    expect(await readdir(user.desk)).not.toContain('got');
    isSaid('A list is the word of the service');
  });

  test('chunks reordered', async () => {
    const recipients = parseRecipients(await readFile(join(user.desk, 'home/public.key'), 'utf8'));
    const plaintext = randomBytes(3 * 65_536 + 100);
    for (const [format, chunkBytes, front] of [
      ['age', 65_552, 16],
      ['sealpin', 16_400, 56],
    ] as const) {
      const { stream } = await encrypt(new Blob([plaintext]).stream(), { format, recipients });
      const whole = Buffer.from(await new Response(stream).arrayBuffer());
      const start = whole.indexOf('\n', whole.indexOf('\n--- ') + 1) + 1 + front;
      const chunk = (at: number) => whole.subarray(start + at * chunkBytes, start + (at + 1) * chunkBytes);
      const parts = (...chunks: Buffer[]) => Buffer.concat([whole.subarray(0, start), ...chunks]);
      const rest = whole.subarray(start + 2 * chunkBytes);
      const id = (await files().put(new Uint8Array(whole), { mode: 'plain' })).cid;
      const wrong = [
        parts(chunk(1), chunk(0), rest),
        parts(chunk(0), rest),
        parts(chunk(0), chunk(1)),
        parts(chunk(0), chunk(1), rest, rest),
      ];
      const decrypt = (from: string, to: string) => refusal(['decrypt', from, to, '--key', 'home/private.key']);
      user.lie = blobOf(id, present(wrong[0]));
      expect(await decrypt(id, 'got')).toBe('content_mismatch');
      // Without a blob ID to compare with.
      for (const [at, body] of [...wrong, whole].entries()) {
        await writeFile(join(user.desk, 'letter.age'), body);
        const codes = body === whole ? [undefined] : ['container_invalid', 'decrypt_failed'];
        expect(codes).toContain(await decrypt('./letter.age', `${format}-${at}`));
      }
    }
  });

  test('downgrade of format or cost', async () => {
    const id = await printed(['encrypt', 'letter.txt']);
    const bytes = await bytesOf(id);
    const cheaper = Buffer.from(bytes.toString('latin1').replace(/^(-> scrypt \S+ )\d+$/m, '$11'), 'latin1');
    expect(cheaper.equals(bytes)).toBe(false);
    const { stream } = await encrypt(new Blob(['forged']).stream(), {
      format: 'age',
      recipients: [passwordRecipient('the password of somebody else', { name: 'scrypt', logN: 10 })],
    });
    const forged = Buffer.from(await new Response(stream).arrayBuffer());
    for (const [body, code] of [
      [cheaper, 'header_invalid'],
      [Buffer.from('Dear Ann, all is well'), 'not_encrypted'],
      [forged, 'decrypt_failed'],
    ] as const) {
      user.lie = blobOf(id, body);
      expect(await refusal(['decrypt', id, 'got'])).toBe('content_mismatch');
      // Without a blob ID to compare with, as in a folder that somebody else can write to.
      await writeFile(join(user.desk, 'letter.sealpin'), body);
      expect(await refusal(['decrypt', './letter.sealpin', 'got'])).toBe(code);
    }
    // A recipient is added to the header of a file that is sealed to the reader.
    const publicKey = await readFile(join(user.desk, 'home/public.key'), 'utf8');
    const sealed = Buffer.from(await (await seal('Dear Ann', { to: { keys: publicKey } })).bytes());
    const added = Buffer.from(sealed.toString('latin1').replace('\n', '\n-> added recipient\n\n'), 'latin1');
    for (const [body, code] of [
      [added, 'decrypt_failed'],
      [sealed, undefined],
    ] as const) {
      await writeFile(join(user.desk, 'letter.age'), body);
      expect(await refusal(['decrypt', './letter.age', 'opened', '--key', 'home/private.key'])).toBe(code);
    }
    // A record with a password is called one without: it does not open.
    const link = await printed(['send', 'letter.txt', '--password']);
    user.lie = rewriting(
      ({ path }) => path.startsWith('/v1/shares/'),
      (value) => (value['password'] === undefined ? value : { ...value, password: false }),
    );
    const ran = await receive(link);
    expect(ran).toMatchObject({ exit: 4, stderr: expect.stringContaining('it opens with a password') });
    expect(await readdir(user.desk)).not.toContain('got');
  });
});
