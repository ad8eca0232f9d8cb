/**
 * contrib/age-plugin-sealpin: stock age and rage open with it what is encrypted to the keys of
 * `keygen`.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { generateX25519Identity } from 'age-encryption';
import { expect, test } from 'vitest';
import {
  generateKeyPair,
  generatePostQuantumKeyPair,
  parseRecipients,
  passwordRecipient,
  webProvider as provider,
} from '../../../crypto/index.ts';
import { encodeKey } from '../../../crypto/keys/bech32.ts';
import { equal } from '../../../../testkit/assertions.ts';
import { inCi } from '../../../../testkit/long-run.ts';
import { inDirectory, installed, programPath, withProgram } from '../../../../testkit/programs/programs.ts';
import { missingTerminal, runAtTerminal } from '../../../../testkit/programs/terminal.ts';
import { pattern } from '../streams.ts';
import { seal } from '../suites/containers.ts';

const contrib = join(import.meta.dirname, '../../../../contrib');
const plugin = join(contrib, 'age-plugin-sealpin');

withProgram('cryptography-python', { probe: ['-c', 'import cryptography'], isOptional: true }, () => {
  withProgram('age-current', { probe: ['--version'], isOptional: true }, () => {
    const PATH = [contrib, dirname(installed('cryptography-python')), process.env['PATH']].join(delimiter);

    /** Runs a program that finds the plugin in its PATH. */
    function ran(program: string, args: readonly string[], input: string | Uint8Array = '') {
      const { status, stdout, stderr } = spawnSync(programPath(program) ?? program, args, {
        input,
        env: { ...process.env, PATH },
      });
      return { status, stdout: new Uint8Array(stdout), stderr: stderr.toString() };
    }

    /** Returns what the plugin prints for a private key: the identity file of age. */
    function identityOf(privateKey: string, path: (name: string) => string): string {
      writeFileSync(path('private.key'), privateKey);
      const { stdout, stderr } = ran(plugin, [path('private.key')]);
      expect(stderr).toBe('');
      writeFileSync(path('identity.txt'), stdout);
      return new TextDecoder().decode(stdout);
    }

    test('age and rage open what is encrypted to the keys of keygen', () =>
      inDirectory(async (path) => {
        const p256 = await generateKeyPair();
        const hybrid = await generatePostQuantumKeyPair();
        for (const pair of [
          { recipient: p256.recipient, secret: p256.privatePem },
          { recipient: hybrid.recipient, secret: hybrid.privateText },
        ]) {
          expect(identityOf(pair.secret, path)).toMatch(/^AGE-PLUGIN-SEALPIN-1[0-9A-Z]+\n$/);
          const plaintext = pattern(70_000);
          const ours = await seal(provider, 'age', parseRecipients(pair.recipient), plaintext);
          const theirs = ran('age-current', ['--encrypt', '-r', pair.recipient], plaintext).stdout;
          for (const [program, file] of [
            ['age-current', ours],
            [programPath('rage') === undefined ? 'age-current' : 'rage', theirs],
          ] as const) {
            const opened = ran(program, ['--decrypt', '-i', path('identity.txt')], file);
            expect(opened.stderr).toBe('');
            equal(opened.stdout, plaintext);
          }
        }
      }));

    inCi('each of several recipients opens it, and nobody else', () =>
      inDirectory(async (path) => {
        const [ann, ben, eve] = [await generateKeyPair(), await generateKeyPair(), await generateKeyPair()];
        const recipients = parseRecipients(`${ann.recipient}\n${ben.recipient}\n`);
        const file = await seal(provider, 'age', recipients, pattern(10));
        for (const [pair, status] of [
          [ann, 0],
          [ben, 0],
          [eve, 1],
        ] as const) {
          identityOf(pair.privatePem, path);
          const opened = ran('age-current', ['--decrypt', '-i', path('identity.txt')], file);
          expect(opened.status).toEqual(status);
          expect(opened.stderr).toEqual(status === 0 ? '' : expect.stringContaining('no identity matched'));
        }
      }),
    );

    inCi('a key that age reads itself, and a file without a key, have no identity', () =>
      inDirectory(async (path) => {
        writeFileSync(path('key'), await generateX25519Identity());
        expect(ran(plugin, [path('key')])).toMatchObject({
          status: 1,
          stderr: expect.stringContaining('age opens files with') as string,
        });
        writeFileSync(path('key'), 'nothing');
        expect(ran(plugin, [path('key')]).stderr).toContain('no private key');
        expect(ran(plugin, [path('missing')]).stderr).toContain('cannot be read');
        expect(ran(plugin, []).stderr).toContain('age-plugin-sealpin private.key > identity.txt');
      }),
    );

    inCi('age is told which identity or stanza is damaged', () =>
      inDirectory(async (path) => {
        const pair = await generateKeyPair();
        const identity = identityOf(pair.privatePem, path).trim();
        /**
         * Joins what the plugin says, one line of age after the other; age agrees to each stanza.
         */
        const conversation = (...lines: string[]) => {
          const oks = Array.from({ length: 9 }, () => '-> ok\n');
          const { stdout, stderr } = ran(plugin, ['--age-plugin=identity-v1'], [...lines, ...oks, ''].join('\n'));
          const said = new TextDecoder().decode(stdout).split('\n');
          return { stderr, said: said.filter((line) => line.startsWith('-> ')) };
        };
        const given = [`-> add-identity ${identity}`, ''];
        const stanza = ['-> recipient-stanza 0 p256tag AAAA', ''];
        const damaged = conversation(...given, ...stanza, '-> done', '');
        expect(damaged.said).toEqual(['-> error stanza 0 0', '-> done']);
        // A wrong checksum, another length, another kind of key, another plugin: then nothing is
        // opened.
        const others = [
          ['age-plugin-sealpin-', 32, 0],
          ['age-plugin-sealpin-', 34, 0],
          ['age-plugin-sealpin-', 33, 2],
          ['age-plugin-other-', 33, 0],
        ] as const;
        const wrong = others.map(([prefix, length, kind]) =>
          encodeKey(prefix, new Uint8Array(length).fill(1).fill(kind, 0, 1)).toUpperCase(),
        );
        const identities = ['AGE-PLUGIN-SEALPIN-1QQQ', ...wrong].flatMap((each) => [`-> add-identity ${each}`, '']);
        expect(conversation(...identities, ...given, ...stanza, '-> done', '').said).toEqual([
          ...[0, 1, 2, 3, 4].map((index) => `-> error identity ${index}`),
          '-> done',
        ]);
        // The tag has four bytes, so that of another key may be the same: its stanza is no damage.
        const file = await seal(provider, 'age', parseRecipients(pair.recipient), pattern(1));
        const [, about = '', key = ''] = /^-> (p256tag .+)\n(.+)\n/m.exec(Buffer.from(file).toString('latin1')) ?? [];
        const changed = [`-> recipient-stanza 0 ${about}`, (key.startsWith('A') ? 'B' : 'A') + key.slice(1)];
        expect(conversation(...given, ...changed, '-> done', '')).toEqual({ stderr: '', said: ['-> done'] });
        expect(conversation('hello').stderr).toContain('speaks another protocol');
      }),
    );

    const missing = missingTerminal();
    test.skipIf(missing !== undefined)(`the password of a protected key is asked for${missing ?? ''}`, () =>
      inDirectory(async (path) => {
        const { privatePem } = await generateKeyPair();
        const lock = passwordRecipient('violet', { name: 'scrypt', logN: 10 });
        writeFileSync(path('key'), await seal(provider, 'age', [lock], new TextEncoder().encode(privatePem)));
        const { exit } = await runAtTerminal([plugin, path('key')], {
          cwd: path('.'),
          env: { PATH },
          shell: '> identity.txt',
          steps: [{ after: 'Password', type: 'violet\r' }],
        });
        expect(exit).toBe(0);
        const protectedOne = readFileSync(path('identity.txt'), 'utf8');
        expect(protectedOne).toBe(identityOf(privatePem, path));
      }),
    );
  });
});
