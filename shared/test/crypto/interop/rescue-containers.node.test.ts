/** contrib/rescue.py reads containers and key files as Sealpin does. */
import { join } from 'node:path';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { describe, expect } from 'vitest';
import {
  generateKeyPair,
  generatePostQuantumKeyPair,
  parseIdentities,
  parseRecipients,
  webProvider as provider,
} from '../../../crypto/index.ts';
import { orUndefined } from '../../../errors.ts';
import { present } from '../../../../testkit/present.ts';
import { inCi } from '../../../../testkit/long-run.ts';
import { run, withProgram } from '../../../../testkit/programs/programs.ts';
import { pattern } from '../streams.ts';
import { seal } from '../suites/containers.ts';
import { readTestkitFile, testkitNames } from '../suites/testkit.ts';

withProgram('cryptography-python', { probe: ['-c', 'import cryptography'], isOptional: true }, () => {
  describe('rescue.py', () => {
    inCi('finds the keys in a file that has comments and other words, where Sealpin does', async () => {
      const [pair, other] = [await generateKeyPair(), await generateKeyPair()];
      const hybrid = await generatePostQuantumKeyPair();
      const [x25519, otherX25519] = [await generateX25519Identity(), await generateX25519Identity()];
      const keys = {
        [pair.recipient]: pair.privatePem,
        [hybrid.recipient]: hybrid.privateText,
        [await identityToRecipient(x25519)]: `${x25519}\n`,
      };
      const mistyped = otherX25519.replace(/.$/, (last) => (last === 'Q' ? 'P' : 'Q'));
      const secrets = [
        otherX25519,
        mistyped,
        'SEALPIN-SECRET-KEY-PQ-1QQQQ',
        'AGE-SECRET-KEY-PQ-1QQQQ',
        other.privatePem,
      ];
      const commented = ['#', '# ', ' \t# old: '].flatMap((mark) =>
        secrets.map((secret) => secret.trim().replaceAll(/^/gm, mark)),
      );
      const around = [
        ...commented,
        '',
        '# Schl\u00FCssel',
        ...secrets.map((each) => `${each} is lost`),
        `lost: ${mistyped}`,
      ];
      const texts = around.flatMap((line) =>
        Object.entries(keys).flatMap(([recipient, key]) =>
          [`${line}\n${key}`, `${key}${line}`, `\uFEFF${line}\r\n${key.replaceAll('\n', '\r\n')}`].map((text) => ({
            recipient,
            text,
          })),
        ),
      );
      const sealed = new Map<string, string>();
      for (const recipient of Object.keys(keys)) {
        const bytes = await seal(provider, 'age', parseRecipients(recipient), pattern(10));
        sealed.set(recipient, Buffer.from(bytes).toString('base64'));
      }
      const ended = opened(
        texts.map(({ recipient, text: key }) => ({ container: present(sealed.get(recipient)), key })),
      );
      const read = texts.map(({ text }) => orUndefined(() => parseIdentities(text)) !== undefined);
      const wrong = texts
        .filter((_, i) => read[i] && ended[i]?.how !== null)
        .map(({ text }, i) => ({ text, ...ended[i] }));
      expect(wrong).toEqual([]);
      expect(read.filter(Boolean).length).toBeGreaterThan(commented.length * 9);
      const refused = [
        mistyped,
        `${mistyped}\n${pair.privatePem}`,
        `${otherX25519} is lost`,
        x25519.slice(0, 20) + x25519.slice(20).toLowerCase(),
      ];
      for (const { how } of opened(refused.map((key) => ({ container: present(sealed.get(pair.recipient)), key }))))
        expect(how).toMatch(/mistyped|no private key/);
    });

    inCi('opens of the files of the age testkit those alone that it should', async () => {
      const files = await Promise.all(testkitNames.map(readTestkitFile));
      const ended = opened(
        files.map(({ container, identity, passphrase: [password] }) => ({
          container: Buffer.from(container).toString('base64'),
          ...(password === undefined ? { key: identity.join('\n') } : { password }),
        })),
      );
      for (const [i, { expect: expected, payload }] of files.entries()) {
        const { how, sha256 } = present(ended[i]);
        expect(how ?? 'success', testkitNames[i]).toMatch(expected === 'success' ? /^success$/ : /^rescue\.py: /);
        if (how === null) expect(sha256, testkitNames[i]).toBe(payload);
      }
    });

    inCi('derives keys of every cost that age reads, as far as there is memory for it', () => {
      const container = (logN: number): string =>
        Buffer.from(
          `age-encryption.org/v1\n-> scrypt ${'A'.repeat(22)} ${logN}\n${'A'.repeat(43)}\n--- ${'A'.repeat(43)}\n`,
        ).toString('base64');
      const costs = Array.from({ length: 24 }, (_, logN) => logN);
      const ended = opened(costs.map((logN) => ({ container: container(logN), password: 'x' })));
      for (const [logN, { how }] of ended.entries()) {
        if (logN < 1 || logN > 22) expect(how, `${logN}`).toContain('out of range');
        else if (logN < 16) expect(how, `${logN}`).toContain('wrong password');
        else expect(how, `${logN}`).toMatch(new RegExp(`wrong password|Not enough memory.* ${2 ** (logN - 10)} ?MB`));
      }
    });
  });
});

/** What a container is opened with: the text of a key file, or a password. */
type Locked = { readonly container: string; readonly key?: string; readonly password?: string };

/**
 * Opens containers in one process of little memory; prints how each ended, and the SHA-256 of what
 * came out.
 */
const openAll = `
import base64, hashlib, io, json, resource, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import rescue
resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))
ended = []
for case in json.load(sys.stdin):
    out = io.BytesIO()
    def opens():
        keys = [rescue.Password(lambda: case["password"])]
        if "key" in case:
            keys = rescue.keys_in(case["key"].encode(), None)
        rescue.open_container(io.BytesIO(base64.b64decode(case["container"])), out, keys, None)
    rescue.main = opens
    ended.append({"how": rescue.failure(), "sha256": hashlib.sha256(out.getvalue()).hexdigest()})
print(json.dumps(ended))
`;

function opened(cases: readonly Locked[]): { how: string | null; sha256: string }[] {
  const argv = ['-c', openAll, join(import.meta.dirname, '../../../../contrib')];
  const stdout = run('cryptography-python', argv, Buffer.from(JSON.stringify(cases)));
  return JSON.parse(new TextDecoder().decode(stdout)) as { how: string | null; sha256: string }[];
}
