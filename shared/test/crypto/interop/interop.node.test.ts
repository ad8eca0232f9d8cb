import { spawnSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import {
  Decrypter,
  Encrypter,
  generateHybridIdentity,
  generateX25519Identity,
  identityToRecipient,
} from 'age-encryption';
import { describe, test } from 'vitest';
import {
  generateKeyPair,
  generatePostQuantumKeyPair,
  open,
  parseIdentities,
  parseRecipients,
  passwordIdentity,
  passwordRecipient,
} from '../../../crypto/index.ts';
import { makeHeader } from '../../../crypto/file-key.ts';
import { formatOf } from '../../../crypto/formats/index.ts';
import { providers, longInNode } from '../../../../testkit/crypto-providers.ts';
import { equal, fails } from '../../../../testkit/assertions.ts';
import { inDirectory, run, withProgram } from '../../../../testkit/programs/programs.ts';
import { collect, fromBase64, join, pattern, pieces } from '../streams.ts';
import { seal, unseal } from '../suites/containers.ts';
import { first, present } from '../../../../testkit/present.ts';

/**
 * An age file with the password `correct horse` and scrypt with N = 2^21, made with `node:crypto`
 * alone; Go's age opens it.
 */
const muchWork =
  'YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IHNjcnlwdCBJVFdIdTRKeDhkNloyTno0T2Q3Y2hBIDIxCmNIRVFGZU00YndiQlJGaEtsbm8r' +
  'dmI5eW5CRXd2eWlMWG1ZUjZ2NEJWTk0KLS0tIGVnWTU5NTd3VmVYTldLL1Rxd1FxQ1RiZjVKL0xZL0VaSzRBWVpzU0VNeWsKuCzmrglS' +
  'T6Yb9HWboFuOvn/UZL7QmaKmd6FSYPgP5ruzwpvYTnLE+hLX';

const sizes = longInNode ? [0, 1, 65_535, 65_536, 65_537, 3 * 65_536, 1_500_000] : [0, 65_537];

for (const provider of providers) {
  // Both providers open the golden files and the testkit of age in the short form, too.
  describe.runIf(longInNode || provider.name === 'node')(`${provider.name} provider`, () => {
    withProgram('age', { probe: ['--version'] }, () => {
      test('age opens what we encrypt to age1…, and we open what age encrypts, armored too', () =>
        inDirectory(async (path) => {
          run('age-keygen', ['-o', path('key')]);
          const identityFile = await readFile(path('key'), 'utf8');
          const recipient = present(/age1[0-9a-z]+/.exec(identityFile))[0];
          for (const size of sizes) {
            const plaintext = pattern(size);
            equal(
              run('age', ['-d', '-i', path('key')], await seal(provider, 'age', parseRecipients(recipient), plaintext)),
              plaintext,
              `age -d of ${size}`,
            );
            const binary = run('age', ['-r', recipient], plaintext);
            equal(
              await unseal(provider, pieces(binary), parseIdentities(identityFile)),
              plaintext,
              `age -r of ${size}`,
            );
            const armored = run('age', ['-a', '-r', recipient], plaintext);
            equal(
              await unseal(provider, pieces(armored, 1000), parseIdentities(identityFile)),
              plaintext,
              `age -a of ${size}`,
            );
          }
        }));

      // age asks for a password at a terminal only: `script` gives it one.
      const atTerminal = (command: string, answers: number): void => {
        const { status, stdout } = spawnSync('script', ['-qec', command, '/dev/null'], {
          input: 'correct horse\n'.repeat(answers),
        });
        if (status !== 0) throw new Error(`${command}: ${stdout.toString()}`);
      };

      test('age opens what we encrypt with a password', () =>
        inDirectory(async (path) => {
          const plaintext = pattern(70_000);
          await writeFile(
            path('ours'),
            await seal(provider, 'age', [passwordRecipient('correct horse', { name: 'scrypt', logN: 12 })], plaintext),
          );
          atTerminal(`age -d -o ${path('back')} ${path('ours')}`, 1);
          equal(new Uint8Array(await readFile(path('back'))), plaintext);
        }));

      // At age's own cost, which noble takes seconds for: once is enough.
      if (provider.name === 'node') {
        test.runIf(longInNode)('we open what age encrypts with a password', { timeout: 120_000 }, () =>
          inDirectory(async (path) => {
            await writeFile(path('plain'), pattern(70_000));
            atTerminal(`age -p -o ${path('theirs')} ${path('plain')}`, 2);
            equal(
              await unseal(provider, pieces(new Uint8Array(await readFile(path('theirs')))), [
                passwordIdentity('correct horse'),
              ]),
              pattern(70_000),
            );
          }),
        );
      }
    });

    test('typage opens what we encrypt, and we open what it encrypts to age1…, age1tag1… and a password', async () => {
      const identity = await generateX25519Identity();
      const pair = await generateKeyPair(provider);
      const plaintext = pattern(200_000);
      const ours = await seal(provider, 'age', parseRecipients(await identityToRecipient(identity)), plaintext);
      const decrypter = new Decrypter();
      decrypter.addIdentity(identity);
      equal(await decrypter.decrypt(ours), plaintext);
      const encrypter = new Encrypter();
      encrypter.addRecipient(await identityToRecipient(identity));
      encrypter.addRecipient(pair.recipient);
      const theirs = await encrypter.encrypt(plaintext);
      equal(await unseal(provider, pieces(theirs), parseIdentities(identity)), plaintext);
      equal(await unseal(provider, pieces(theirs), parseIdentities(pair.privatePem)), plaintext);
      const byPassword = new Encrypter();
      byPassword.setPassphrase('pässword');
      byPassword.setScryptWorkFactor(10);
      const locked = await byPassword.encrypt(plaintext);
      equal(await unseal(provider, pieces(locked), [passwordIdentity('pässword')]), plaintext);
      const opened = await open(pieces(locked), { provider });
      equal('opens' in opened && opened.opens, 'password');
      const byOurs = new Decrypter();
      byOurs.addPassphrase('pässword');
      equal(
        await byOurs.decrypt(
          await seal(provider, 'age', [passwordRecipient('pässword', { name: 'scrypt', logN: 10 })], plaintext),
        ),
        plaintext,
      );
    });

    test('typage encrypts to post-quantum keys of ours, and opens what we encrypt to its own', async () => {
      const pair = await generatePostQuantumKeyPair(provider);
      const identity = await generateHybridIdentity();
      const plaintext = pattern(100_000);
      const encrypter = new Encrypter();
      encrypter.addRecipient(pair.recipient);
      encrypter.addRecipient(await identityToRecipient(identity));
      const theirs = await encrypter.encrypt(plaintext);
      for (const key of [pair.privateText, identity])
        equal(await unseal(provider, pieces(theirs), parseIdentities(key)), plaintext);
      const decrypter = new Decrypter();
      decrypter.addIdentity(identity);
      equal(
        await decrypter.decrypt(
          await seal(provider, 'age', parseRecipients(await identityToRecipient(identity)), plaintext),
        ),
        plaintext,
      );
    });

    test('S41: an age file whose password is not in form C opens with the password as it was given', async () => {
      const decomposed = 'Schlu\u0308ssel';
      const encrypter = new Encrypter();
      encrypter.setPassphrase(decomposed);
      encrypter.setScryptWorkFactor(10);
      const theirs = await encrypter.encrypt('x');
      equal(await unseal(provider, pieces(theirs), [passwordIdentity(decomposed)]), new TextEncoder().encode('x'));
      await fails('decrypt_failed', () =>
        unseal(provider, pieces(theirs), [passwordIdentity(decomposed.normalize('NFC'))]),
      );
    });

    if (longInNode && provider.name === 'node')
      test('an age file of 2 GiB of scrypt opens', { timeout: 120_000 }, async () => {
        equal(
          await unseal(provider, pieces(fromBase64(muchWork)), [passwordIdentity('correct horse')]),
          new TextEncoder().encode('much work\n'),
        );
      });

    for (const [program, keygen] of [
      ['age-current', 'age-current-keygen'],
      ['rage', 'rage-keygen'],
    ] as const)
      withProgram(program, { probe: ['--version'], isOptional: true }, () => {
        test(`next to a malformed stanza for another recipient, we open and refuse the same files as ${program}`, () =>
          inDirectory(async (path) => {
            run(keygen, ['-o', path('key')]);
            const identityFile = await readFile(path('key'), 'utf8');
            const recipient = first(parseRecipients(present(/age1[0-9a-z]+/.exec(identityFile))[0]));
            const identities = parseIdentities(identityFile);
            let opened = 0;
            for (const name of ['X25519', 'p256tag', 'mlkem768x25519', 'mlkem768p256tag', 'ssh-ed25519', 'grease']) {
              for (const isFirst of [true, false]) {
                const fileKey = provider.random(16);
                const ours = await recipient.wrap(fileKey, formatOf('age'), provider);
                const bad = { args: [name, 'AAAA'], body: new Uint8Array(5) };
                const header = makeHeader(provider, formatOf('age'), fileKey, isFirst ? [bad, ours] : [ours, bad]);
                const { preamble, chunks } = await formatOf('age').payload.create(provider, fileKey);
                const last = await chunks.aead.seal(chunks.nonce(0, true), pattern(10));
                const file = join([header, preamble, last]);
                await writeFile(path('file'), file);
                const what = `${name}, ${isFirst ? 'before' : 'after'} ours`;
                let theirs: Uint8Array | undefined;
                try {
                  theirs = run(program, ['-d', '-i', path('key'), path('file')]);
                } catch {
                  // It refuses the file: so do we.
                }
                if (theirs === undefined)
                  await fails('header_invalid', () => unseal(provider, pieces(file), identities), what);
                else equal(await unseal(provider, pieces(file), identities), theirs, what);
                if (theirs !== undefined) opened += 1;
              }
            }
            equal(opened, 11, 'how many it opens');
          }));
      });

    // age-current: a current age under another name than Debian's; `.ci/age` builds it where Go is,
    // and rage where cargo is.
    withProgram('age-current', { probe: ['--version'], isOptional: true }, () => {
      test('a current age encrypts to every kind of our keys, and opens what we encrypt to its own', () =>
        inDirectory(async (path) => {
          const classic = await generateKeyPair(provider);
          const quantum = await generatePostQuantumKeyPair(provider);
          const plaintext = pattern(200_000);
          for (const { recipient, key } of [
            { recipient: classic.recipient, key: classic.privatePem },
            { recipient: quantum.recipient, key: quantum.privateText },
          ]) {
            await writeFile(path('recipients'), recipient);
            equal(
              await unseal(
                provider,
                pieces(run('age-current', ['-R', path('recipients')], plaintext)),
                parseIdentities(key),
              ),
              plaintext,
              recipient.slice(0, 10),
            );
          }
          for (const options of [[], ['-pq']]) {
            const identity = new TextDecoder().decode(run('age-current-keygen', options));
            await writeFile(path('identity'), identity);
            const recipient = new TextDecoder().decode(run('age-current-keygen', ['-y', path('identity')]));
            await writeFile(path('recipients'), recipient);
            equal(
              run(
                'age-current',
                ['-d', '-i', path('identity')],
                await seal(provider, 'age', parseRecipients(recipient), plaintext),
              ),
              plaintext,
              `we to age, ${options.join('')}`,
            );
            equal(
              await unseal(
                provider,
                pieces(run('age-current', ['-R', path('recipients')], plaintext)),
                parseIdentities(identity),
              ),
              plaintext,
              `age to us, ${options.join('')}`,
            );
          }
        }));
    });

    withProgram('rage', { probe: ['--version'], isOptional: true }, () => {
      test('rage encrypts to our keys, and opens what we encrypt to its own', () =>
        inDirectory(async (path) => {
          const pair = await generateKeyPair(provider);
          const plaintext = pattern(200_000);
          equal(
            await unseal(
              provider,
              pieces(run('rage', ['-r', pair.recipient], plaintext)),
              parseIdentities(pair.privatePem),
            ),
            plaintext,
          );
          run('rage-keygen', ['-o', path('identity')]);
          const identity = await readFile(path('identity'), 'utf8');
          const recipient = present(/age1[0-9a-z]+/.exec(identity))[0];
          await writeFile(path('ours'), await seal(provider, 'age', parseRecipients(recipient), plaintext));
          equal(run('rage', ['-d', '-i', path('identity'), path('ours')]), plaintext);
          for (const armor of [[], ['-a']])
            equal(
              await unseal(
                provider,
                pieces(run('rage', [...armor, '-r', recipient], plaintext)),
                parseIdentities(identity),
              ),
              plaintext,
            );
        }));
    });

    withProgram('openssl', { probe: ['version'] }, () => {
      test('openssl reads private.key and makes of it exactly the PEM block of public.key', () =>
        inDirectory(async (path) => {
          const { privatePem, publicPem } = await generateKeyPair(provider);
          await writeFile(path('private.key'), privatePem);
          await writeFile(path('public.key'), publicPem);
          const block = publicPem.slice(publicPem.indexOf('-----BEGIN'));
          equal(new TextDecoder().decode(run('openssl', ['pkey', '-in', path('private.key'), '-pubout'])), block);
          equal(
            new TextDecoder().decode(run('openssl', ['pkey', '-pubin', '-in', path('public.key'), '-pubout'])),
            block,
          );
          run('openssl', ['pkey', '-in', path('private.key'), '-check', '-noout']);
        }));

      test('key pairs of openssl work: PKCS#8, SEC1, compressed points; not other curves and protected keys', () =>
        inDirectory(async (path) => {
          run('openssl', ['genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256', '-out', path('pkcs8')]);
          run('openssl', ['ecparam', '-name', 'prime256v1', '-genkey', '-out', path('sec1')]);
          for (const file of ['pkcs8', 'sec1']) {
            const privatePem = await readFile(path(file), 'utf8');
            for (const form of ['uncompressed', 'compressed']) {
              const publicPem = new TextDecoder().decode(
                run('openssl', ['ec', '-in', path(file), '-pubout', '-conv_form', form]),
              );
              const container = await seal(provider, 'sealpin', parseRecipients(publicPem), pattern(100));
              equal(
                await unseal(provider, pieces(container), parseIdentities(privatePem)),
                pattern(100),
                `${file}, ${form}`,
              );
            }
            run('openssl', ['ec', '-in', path(file), '-conv_form', 'compressed', '-out', path('compressed')]);
            equal(parseIdentities(await readFile(path('compressed'), 'utf8')).length, 1);
            run('openssl', ['ec', '-in', path(file), '-no_public', '-out', path('no-public')]);
            equal(parseIdentities(await readFile(path('no-public'), 'utf8')).length, 1);
          }
          for (const [name, args] of [
            ['p384', ['genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-384']],
            [
              'explicit',
              [
                'genpkey',
                '-algorithm',
                'EC',
                '-pkeyopt',
                'ec_paramgen_curve:P-256',
                '-pkeyopt',
                'ec_param_enc:explicit',
              ],
            ],
            ['rsa', ['genpkey', '-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:1024']],
            ['ed25519', ['genpkey', '-algorithm', 'ED25519']],
            ['protected', ['pkcs8', '-topk8', '-in', path('pkcs8'), '-passout', 'pass:x']],
            ['protected-sec1', ['ec', '-in', path('sec1'), '-aes256', '-passout', 'pass:x']],
          ] as const) {
            const pem = new TextDecoder().decode(run('openssl', args));
            await fails('key_invalid', () => parseIdentities(pem), name);
          }
          for (const curve of ['P-384', 'secp256k1']) {
            run('openssl', [
              'genpkey',
              '-algorithm',
              'EC',
              '-pkeyopt',
              `ec_paramgen_curve:${curve}`,
              '-out',
              path('other'),
            ]);
            const publicPem = new TextDecoder().decode(run('openssl', ['pkey', '-in', path('other'), '-pubout']));
            await fails('key_invalid', () => parseRecipients(publicPem), curve);
          }
        }));
    });

    test('a container that typage makes as a stream is opened as a stream', async () => {
      const identity = await generateX25519Identity();
      const encrypter = new Encrypter();
      encrypter.addRecipient(await identityToRecipient(identity));
      const theirs = await encrypter.encrypt(pieces(pattern(3_000_000)));
      const opened = await open(theirs, { provider });
      if (opened.kind !== 'age') throw new Error(`it is ${opened.kind}`);
      equal(await collect(await opened.decrypt(parseIdentities(identity))), pattern(3_000_000));
    });
  });
}
