import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { open, passwordIdentity } from '../../../shared/crypto/index.ts';
import { carOf } from '../../../shared/ipfs/index.ts';
import { cidOfBytes } from '../../../testkit/cid.ts';
import { drain, health, hostile, json, someApiKey, storedFile } from '../hostile.ts';
import { atTerminal, missingTerminal } from '../pty.ts';
import { run, temporaryDirectory } from '../environment.ts';
import { first } from '../../../testkit/present.ts';
import { inCi, long } from '../../../testkit/long-run.ts';

const missing = missingTerminal();

/** A service that takes one upload and keeps what came. */
async function service() {
  const stored: Buffer[] = [];
  const { url } = await hostile({
    'GET /v1/health': health(),
    'POST /v1/storage/plain': async (request, response, seen) => {
      await drain(request, seen);
      stored.push(seen.body);
      json(response, 201, storedFile(await cidOfBytes(seen.body), seen.body.length));
    },
  });
  return { stored, env: { SEALPIN_SERVICE: url, SEALPIN_API_KEY: someApiKey } };
}

/** The CAR of a blob of one block, as a gateway gives it. */
async function carOfBytes(bytes: Buffer): Promise<{ blobId: string; car: Buffer }> {
  const cid = await cidOfBytes(bytes);
  const source = { id: 'memory', block: async () => new Uint8Array(bytes) };
  return { blobId: cid, car: Buffer.from(await new Response(carOf(cid, [source])).arrayBuffer()) };
}

async function opensWith(container: Buffer, password: string): Promise<string> {
  const opened = await open(new Blob([new Uint8Array(container)]).stream());
  if (opened.kind !== 'age' && opened.kind !== 'sealpin') throw new Error(opened.kind);
  return new Response(await opened.decrypt([passwordIdentity(password)])).text();
}

describe.skipIf(missing !== undefined)(`at a terminal${missing === undefined ? '' : ` (not run: ${missing})`}`, () => {
  test('S56, S92: a new password is asked for twice and not shown, with a word that nobody can reset it', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'plain text');
    const { stored, env } = await service();
    const { exit, screen } = await atTerminal(['encrypt', 'in'], {
      cwd: directory,
      env,
      steps: [
        // Backspace takes a whole character, Ctrl-U the line.
        { after: 'New password', type: 'wrong\u0015canary pässä\u007F\u007F word-in-sight\r' },
        { after: 'Repeat the password', type: 'canary päs word-in-sight\r' },
      ],
    });
    expect({ exit, screen }).toMatchObject({ exit: 0 });
    expect(screen).toMatch(/^New password \(it cannot be reset later\): \r\nRepeat the password: \r\n/);
    expect(screen).toMatch(
      /bafkrei[a-z2-7]+\r\nsealpin: the blob ID may .*\r\nsealpin: to open it:\r\n {2}sealpin decrypt .*\r\n$/,
    );
    expect(screen).not.toContain('canary');
    expect(await opensWith(first(stored), 'canary päs word-in-sight')).toBe('plain text');
  });

  inCi('a weak password is used after a yes only, and nothing is stored before', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'plain text');
    const { stored, env } = await service();
    const twice = (password: string) => [
      { after: 'New password', type: `${password}\r` },
      { after: 'Repeat', type: `${password}\r` },
    ];
    const { exit, screen } = await atTerminal(['encrypt', 'in'], {
      cwd: directory,
      env,
      steps: [
        ...twice('letmein'),
        { after: 'Use it anyway? [y/N]', type: '\r' },
        ...twice('letmein2'),
        { after: 'Use it anyway? [y/N]', type: 'y\r' },
      ],
    });
    expect({ exit, screen }).toMatchObject({ exit: 0 });
    expect(screen.match(/this password is weak/g)).toHaveLength(2);
    expect(stored).toHaveLength(1);
    expect(await opensWith(first(stored), 'letmein2')).toBe('plain text');
  });

  test('S56: two passwords that differ are refused, and nothing is stored', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'plain text');
    const { stored, env } = await service();
    const { exit, screen } = await atTerminal(['encrypt', 'in'], {
      cwd: directory,
      env,
      steps: [
        { after: 'New password', type: 'one\r' },
        { after: 'Repeat', type: 'two\r' },
      ],
    });
    expect(exit).toBe(2);
    expect(screen).toContain('the two passwords differ');
    expect(stored).toEqual([]);
  });

  test('S41: an empty password is refused without asking again', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'plain text');
    const { exit, screen } = await atTerminal(['encrypt', 'in'], {
      cwd: directory,
      env: (await service()).env,
      steps: [{ after: 'New password', type: '\r' }],
    });
    expect(exit).toBe(2);
    expect(screen).toContain('empty');
  });

  test.each(
    [
      { title: 'Ctrl-C', type: 'half\u0003' },
      { title: 'Ctrl-D', type: '\u0004' },
    ].filter((_, index) => long || index < 1),
  )('S52: $title at the prompt ends it with 130', async ({ type }) => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'plain text');
    const { stored, env } = await service();
    const { exit, screen } = await atTerminal(['encrypt', 'in'], {
      cwd: directory,
      env,
      steps: [{ after: 'New password', type }],
    });
    expect(exit).toBe(130);
    expect(screen).not.toContain('half');
    expect(stored).toEqual([]);
  });

  inCi('a password is asked for also when the file comes from a pipe and the blob ID goes into a file', async () => {
    const directory = await temporaryDirectory();
    const { stored, env } = await service();
    await writeFile(join(directory, 'in'), 'from a pipe');
    const { exit, screen } = await atTerminal(['chacha-encrypt', '-'], {
      cwd: directory,
      env,
      shell: '< in > out',
      steps: [
        { after: 'New password', type: 'violet-anchor-tundra-mosaic\r' },
        { after: 'Repeat', type: 'violet-anchor-tundra-mosaic\r' },
      ],
    });
    expect({ exit, screen }).toMatchObject({ exit: 0 });
    expect(screen).not.toContain('bafkrei');
    expect(await readFile(join(directory, 'out'), 'utf8')).toMatch(/^bafkrei[a-z2-7]+\n$/);
    expect(await opensWith(first(stored), 'violet-anchor-tundra-mosaic')).toBe('from a pipe');
  });

  test('a wrong password can be typed again twice, and the blob is fetched once', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'plain text');
    const { stored, env } = await service();
    await run(['encrypt', 'in'], directory, { env: { ...env, SEALPIN_PASSWORD: 'some long password' } });
    const { blobId, car } = await carOfBytes(first(stored));
    const gateway = await hostile({
      'GET /ipfs/': (_request, response) =>
        response.writeHead(200, { 'content-type': 'application/vnd.ipld.car; version=1; order=dfs; dups=y' }).end(car),
    });
    const steps = ['first', 'second', 'some long password'].map((word, index) => ({
      after: index === 0 ? `Password for ${blobId}` : 'Wrong password. Password for',
      type: `${word}\r`,
    }));
    const right = await atTerminal(['decrypt', blobId, 'out', '--service', gateway.url], { cwd: directory, steps });
    expect({ exit: right.exit, screen: right.screen }).toMatchObject({ exit: 0 });
    expect(await readFile(join(directory, 'out'), 'utf8')).toBe('plain text');
    expect(gateway.seen).toHaveLength(1);
  });

  inCi('a protected private key can be tried three times, too', async () => {
    const directory = await temporaryDirectory();
    const made = await run(['keygen', '--protect', '--data-dir', directory], directory, {
      env: { SEALPIN_PASSWORD: 'some long password' },
    });
    expect(made.exit).toBe(0);
    const steps = ['first', 'second', 'some long password'].map((word, index) => ({
      after: index === 0 ? 'Password for' : 'Wrong password. Password for',
      type: `${word}\r`,
    }));
    await writeFile(join(directory, 'in'), 'no container');
    const opened = await atTerminal(['ecc-decrypt', './in', 'out', '--data-dir', directory], { cwd: directory, steps });
    expect(opened.screen).toContain('it is not encrypted');
  });

  inCi(
    'the password of a protected private key is asked for where the environment has that of something else',
    async () => {
      const directory = await temporaryDirectory();
      const protecting = ['--protect', '--data-dir', directory];
      const password = 'some long password';
      await run(['keygen', ...protecting], directory, { env: { SEALPIN_PASSWORD: password } });
      const { exit, screen } = await atTerminal(['key', 'rotate', ...protecting], {
        cwd: directory,
        env: { SEALPIN_PASSWORD: 'that of something else' },
        steps: [
          { after: 'Wrong password. Password for', type: `${password}\r` },
          { after: 'New password', type: 'violet-anchor-tundra-mosaic\r' },
          { after: 'Repeat', type: 'violet-anchor-tundra-mosaic\r' },
        ],
      });
      expect({ exit, screen }).toMatchObject({ exit: 0 });
    },
  );

  /** A directory with the file `container`, which a password opens. */
  async function withContainer(): Promise<string> {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'plain text');
    const { stored, env } = await service();
    await run(['encrypt', 'in'], directory, { env: { ...env, SEALPIN_PASSWORD: 'some long password' } });
    await writeFile(join(directory, 'container'), first(stored));
    return directory;
  }

  test.runIf(long)('the password of a container, asked for, opens it', async () => {
    const directory = await withContainer();
    const right = await atTerminal(['decrypt', './container', 'out'], {
      cwd: directory,
      steps: [{ after: 'Password for ./container', type: 'some long password\r' }],
    });
    expect(right).toMatchObject({ exit: 0 });
    expect(await readFile(join(directory, 'out'), 'utf8')).toBe('plain text');
  });

  test('a container asks for its password, and after three wrong ones there is no file', async () => {
    const directory = await withContainer();
    const wrong = await atTerminal(['decrypt', './container', 'out2'], {
      cwd: directory,
      steps: ['Password for ./container', 'Wrong password.', 'Wrong password.'].map((after) => ({
        after,
        type: 'some other password\r',
      })),
    });
    expect(wrong.exit).toBe(4);
    expect(wrong.screen).toContain('error:');
    expect(await readdir(directory)).not.toContain('out2');
  });

  test('the work shows a bar, which is gone at the end', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), Buffer.alloc(2 * 1024 * 1024));
    const { env } = await service();
    const { exit, screen } = await atTerminal(['encrypt', 'in'], {
      cwd: directory,
      env: { ...env, SEALPIN_PASSWORD: 'some long password' },
    });
    expect(exit).toBe(0);
    expect(screen).toContain('deriving the key from the password');
    expect(screen).toMatch(/encrypting and storing {2}\S+ \S+ of 2\.0 MiB/);
    const end = screen.slice(screen.lastIndexOf('\u001B[K') + 3);
    expect(end).toMatch(
      /^bafybei[a-z2-7]+\r\nsealpin: the blob ID may .*\r\nsealpin: to open it:\r\n {2}sealpin decrypt .*\r\n$/,
    );
  });
});

// In the short form checkout.test.ts looks at the real entry.
test.runIf(long && process.platform === 'linux')(
  'S56: the words of the command are not to be seen while it runs',
  async () => {
    const directory = await temporaryDirectory();
    const { env } = await service();
    const entry = fileURLToPath(new URL('../../index.ts', import.meta.url));
    const child = spawn(process.execPath, [entry, 'encrypt', '-', 'canary-on-the-line'], {
      cwd: directory,
      env: { ...process.env, ...env, HOME: directory },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    await expect.poll(() => stderr).toContain('a password on the command line is visible');
    const line = await readFile(`/proc/${child.pid}/cmdline`, 'utf8');
    expect(line).toMatch(/^sealpin\0*$/);
    child.stdin.end('x');
    const [exit] = (await once(child, 'close')) as [number];
    expect(exit).toBe(0);
    expect(stderr).not.toContain('canary');
  },
);
