/**
 * contrib/rescue.py opens the folders of backups and backup words, and ends on every other
 * input.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { encryptPayload, postQuantumKeyPairOf } from '../../../crypto/index.ts';
import { fileKeyText } from '../../../crypto/keys/file-key-text.ts';
import { keyPairOf } from '../../../crypto/keys/key-file.ts';
import { printLink, sealParcel } from '../../../link/index.ts';
import { backupVector, damagedFiles, writeFiles as write } from '../../../../testkit/backup-vector.ts';
import { inDirectory, installed, run, withProgram } from '../../../../testkit/programs/programs.ts';
import { ci, inCi, long } from '../../../../testkit/long-run.ts';
import { present } from '../../../../testkit/present.ts';
import { collect, pieces } from '../streams.ts';

const root = join(import.meta.dirname, '../../../..');
const vector = backupVector;
const fromBase64 = (text: string): Buffer => Buffer.from(text, 'base64');
/** What a reader of the whole folder leaves, by name: containers of the owner's as they are. */
const opened = new Map([
  ...Object.entries(vector.opens),
  ...Object.keys(vector.sealed).map((name) => [name, containerIn(name)] as const),
]);
const whole = [...opened.values()];

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

withProgram('cryptography-python', { probe: ['-c', 'import cryptography'], isOptional: true }, () => {
  const rescue = (...argv: string[]): string =>
    text(run('cryptography-python', [join(root, 'contrib/rescue.py'), ...argv]));

  test('rescue.py has at most 600 lines', () => {
    expect(readFileSync(join(root, 'contrib/rescue.py'), 'utf8').split('\n').length).toBeLessThanOrEqual(601);
  });

  describe('rescue.py opens', () => {
    test('the backup of the vector, with all names, and what its owner had sealed', () =>
      inDirectory(async (path) => {
        await write(path('copy'), vector.folder);
        await write(path('.'), { password: vector.password });
        const listed = rescue('backup', '--password-file', path('password'), path('copy')).trim().split('\n');
        expect(listed).toHaveLength(Object.keys(vector.opens).length + Object.keys(vector.sealed).length);
        const argv = ['contrib/rescue.py', 'backup', '--password-file', path('password'), path('copy'), path('out')];
        const { stderr } = spawnSync(installed('cryptography-python'), argv, { encoding: 'utf8', cwd: root });
        expect(stderr).toContain(`${Object.keys(vector.sealed).length} files stay encrypted; each opens with its own`);
        const expected = [...Object.keys(vector.opens), ...Object.keys(vector.sealed)];
        expect(readdirSync(path('out')).toSorted()).toEqual(expected.toSorted());
        for (const [name, bytes] of Object.entries(vector.opens))
          expect(readFileSync(path(`out/${name}`)).equals(bytes)).toBe(true);
        for (const [name, { privateKey, password, plaintext }] of Object.entries(vector.sealed)) {
          await write(path('.'), { secret: privateKey ?? present(password) });
          const flag = privateKey === undefined ? '--password-file' : '--key';
          expect(rescue(flag, path('secret'), path(`out/${name}`), '-')).toBe(text(fromBase64(plaintext)));
        }
      }));

    inCi('backup words, as the key that they were made of', async () => {
      const { entropyToMnemonic } = await import('@scure/bip39');
      const { wordlist } = await import('@scure/bip39/wordlists/english.js');
      await inDirectory(async (path) => {
        for (let at = 0; at < (ci ? 3 : 1); at += 1) {
          const secret = Uint8Array.from({ length: 32 }, (_, index) => index * 7 + at + 1);
          await write(path('.'), { words: entropyToMnemonic(secret, wordlist) });
          const pem = keyPairOf(secret).privatePem.split('\n').slice(1).join('\n');
          expect(rescue('words', '--words-file', path('words'), '-')).toBe(pem);
          const hybrid = postQuantumKeyPairOf(secret).privateText.split('\n')[1];
          expect(rescue('words', '--post-quantum', '--words-file', path('words'), '-')).toBe(`${hybrid}\n`);
        }
        const wrong = entropyToMnemonic(new Uint8Array(32).fill(3), wordlist).split(' ').toReversed();
        await write(path('.'), { words: wrong.join(' ') });
        expect(() => rescue('words', '--words-file', path('words'), '-')).toThrow(/checksum|list of words/);
      });
    });
  });

  inCi('rescue.py says what it has to say also where its output cannot show a letter', () =>
    inDirectory(async (path) => {
      await write(path('copy'), vector.folder);
      await write(path('.'), { password: vector.password, 'taken ☃': '' });
      const backup = ['backup', '--password-file', path('password'), path('copy')];
      for (const [encoding, shown] of Object.entries({ ascii: '\\u2603', cp1252: '\\u2603', utf8: '☃' })) {
        const env = { ...process.env, PYTHONIOENCODING: encoding };
        const started = (...argv: string[]) =>
          spawnSync(installed('cryptography-python'), ['contrib/rescue.py', ...argv], {
            cwd: root,
            encoding: 'utf8',
            env,
          });
        for (const argv of [backup, [...backup, path(`out-${encoding}`)]]) {
          const { status, stdout } = started(...argv);
          expect({ status, lines: stdout.trim().split('\n').length }).toEqual({ status: 0, lines: opened.size });
          expect(stdout).toContain(`letter ${shown}.txt\n`);
        }
        for (const argv of [
          ['bucket', path('none ☃')],
          [...backup.slice(0, 3), path('none ☃')],
          ['--password-file', path('password'), path('copy/account.key'), path('taken ☃')],
        ]) {
          const { status, stderr } = started(...argv);
          expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringMatching(/^rescue\.py: .*\n$/) });
          expect(stderr).toContain(shown);
        }
      }
    }),
  );

  inCi('rescue.py needs for a backup only itself and rescue_backup.py', () =>
    inDirectory(async (path) => {
      await write(path('copy'), vector.folder);
      const programs = ['rescue.py', 'rescue_backup.py'].map(
        (name) => [name, readFileSync(join(root, 'contrib', name))] as const,
      );
      await write(path('.'), { password: vector.password, ...Object.fromEntries(programs) });
      const argv = [path('rescue.py'), 'backup', '--password-file', path('password'), path('copy')];
      expect(text(run('cryptography-python', argv)).trim().split('\n')).toHaveLength(opened.size);
    }),
  );

  inCi('rescue.py leaves a file alone that has the name of its output and .part', () =>
    inDirectory(async (path) => {
      const { payload, fileKey } = await encryptPayload(pieces(Buffer.from('Dear Ann'), 3));
      await write(path('.'), { payload: await collect(payload), key: fileKeyText(fileKey), 'out.part': 'mine' });
      rescue('--file-key', path('key'), path('payload'), path('out'));
      expect(readFileSync(path('out'), 'utf8')).toBe('Dear Ann');
      await write(path('.'), { key: fileKeyText(new Uint8Array(32)) });
      expect(() => rescue('--file-key', path('key'), path('payload'), path('other'))).toThrow('of another file');
      expect(readFileSync(path('out.part'), 'utf8')).toBe('mine');
      expect(readdirSync(path('.')).toSorted()).toEqual(['key', 'out', 'out.part', 'payload']);
    }),
  );

  test('rescue.py calls nothing that the package cryptography has had for less than version 3.4', () => {
    for (const name of ['rescue.py', 'rescue_backup.py', 'rescue_bucket.py'])
      expect(readFileSync(join(root, 'contrib', name), 'utf8')).not.toMatch(/bytes_raw\b/);
  });

  inCi('rescue.py says, where there is no terminal, how to give what it asks for', () =>
    inDirectory(async (path) => {
      await write(path('copy'), vector.folder);
      // In a session of its own it has no terminal, also where the tests have one.
      const alone =
        'import os, runpy, sys; os.setsid(); del sys.argv[0]; runpy.run_path(sys.argv[0], run_name="__main__")';
      for (const { argv, says } of [
        { argv: ['backup', path('copy')], says: '--password-file or SEALPIN_PASSWORD' },
        { argv: [path('copy/account.key'), '-'], says: '--password-file or SEALPIN_PASSWORD' },
        { argv: ['words', '-'], says: '--words-file' },
      ]) {
        const started = ['-c', alone, join(root, 'contrib/rescue.py'), ...argv];
        const env = { PATH: process.env['PATH'], PYTHONPATH: join(root, 'contrib'), PYTHONDONTWRITEBYTECODE: '1' };
        const { status, stderr } = spawnSync(installed('cryptography-python'), started, { encoding: 'utf8', env });
        expect({ argv, status, stderr }).toEqual({
          argv,
          status: 1,
          stderr: `rescue.py: nothing was typed, or there is no terminal to ask at: use ${says}\n`,
        });
      }
    }),
  );

  inCi('rescue.py ends with a sentence on every damaged backup, link and record', () =>
    inDirectory(async (path) => {
      const share = await sealParcel({
        files: [
          { cid: `bafkrei${'a'.repeat(52)}`, fileKey: new Uint8Array(32), name: 'a', type: 'text/plain', size: 8 },
        ],
      });
      const link = printLink({
        kind: 'share',
        service: 'https://sealpin.example/',
        id: '0'.repeat(22),
        secret: share.secret,
      });
      const files: Record<string, Buffer> = {
        ...vector.folder,
        'x/link': Buffer.from(link),
        'x/record': Buffer.from(share.record),
      };
      const cases: Case[] = damagedFiles(files, 35, long ? 3000 : ci ? 120 : 50);
      const json = 'files/9bf8639a-f236-4df3-9b23-182756ce2c0d.json';
      for (const bytes of ['', '[]', 'null', '{"v":1}', '['.repeat(100_000), '{"v":1,"fileId":7,"cid":{}}'])
        for (const name of [json, 'backup.json', 'account.key', 'x/link', 'x/record'])
          cases.push({ name, change: { [name]: Buffer.from(bytes).toString('base64') } });
      const ended = await endsOf(path, files, cases);
      expect(ended).toHaveLength(cases.length);
      expect(ended.filter(({ how }) => how !== null && !how.startsWith('rescue.py: '))).toEqual([]);
      const known = whole.map((bytes) => bytes.toString('base64'));
      expect(ended.flatMap(({ found }) => found).filter((each) => !known.includes(each))).toEqual([]);
      expect(ended.filter(({ how }) => how !== null).length).toBeGreaterThan(cases.length / 2);
    }),
  );

  inCi('rescue.py opens all files of a changed backup but those that the vector names', () =>
    inDirectory(async (path) => {
      const ended = await endsOf(path, vector.folder, vector.refused);
      for (const [at, { name, lost }] of vector.refused.entries()) {
        const { how, found } = present(ended[at]);
        if (lost.length === 0) expect(how, name).toBe(null);
        else expect(how, name).toMatch(/^rescue\.py: /);
        expect(how ?? '', name).not.toMatch(/\b1 files\b/);
        const kept = [...opened].filter(([each]) => !lost.includes(each)).map(([, bytes]) => bytes.toString('base64'));
        expect(found.toSorted(), name).toEqual(kept.toSorted());
      }
    }),
  );

  /** Files that are replaced (null: removed); a name in `x/` means the link and its record. */
  type Case = { readonly name: string; readonly change: Readonly<Record<string, string | null>> };

  /** How each run ends, and what it leaves in base64. */
  const endsOf = async (
    path: (name: string) => string,
    files: Readonly<Record<string, Uint8Array>>,
    cases: readonly Case[],
  ): Promise<{ how: string | null; found: string[] }[]> => {
    await write(path('all'), files);
    await write(path('.'), { 'cases.json': JSON.stringify(cases), password: vector.password });
    const argv = ['-c', runAll, join(root, 'contrib'), path('all'), path('cases.json'), path('password')];
    return JSON.parse(text(run('cryptography-python', argv))) as { how: string | null; found: string[] }[];
  };
});

/** A container of the owner's in the folder. */
function containerIn(name: string): Buffer {
  const mark = name.endsWith('.age') ? 'age-encryption.org/v1\n' : 'sealpin/v1\n';
  const blobs = Object.entries(vector.folder).filter(([path]) => path.startsWith('blobs/'));
  const [, car] = present(blobs.find(([, bytes]) => bytes.includes(mark)));
  return car.subarray(car.indexOf(mark));
}

/**
 * Puts the files of one case after the other in their places, in one process; prints how each run
 * ended, and what it left. A case that takes too long ends the process.
 */
const runAll = `
import contextlib, io, json, os, shutil, signal, sys, base64
sys.path.insert(0, sys.argv[1])
import rescue
folder, cases, password = sys.argv[2], json.load(open(sys.argv[3])), sys.argv[4]
def put(path, data):
    if os.path.exists(path):
        os.unlink(path)
    if data is not None:
        open(path, "wb").write(data)
def attempt(name):
    out = folder + ".out"
    shutil.rmtree(out, ignore_errors=True)
    if name.startswith("x/"):
        sys.argv = ["rescue.py", "--link", folder + "/x/link", folder + "/x/record", "-"]
    else:
        sys.argv = ["rescue.py", "backup", "--password-file", password, folder, out]
    signal.alarm(30)
    quiet = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(io.StringIO()):
        try:
            how = rescue.failure()
        except BaseException as error:
            how = "not caught: " + repr(error)
    found = [open(os.path.join(out, each), "rb").read() for each in os.listdir(out)] if os.path.isdir(out) else []
    return {"how": how, "found": [base64.b64encode(each).decode() for each in found]}
ended = []
for case in cases:
    before = {os.path.join(folder, name): open(os.path.join(folder, name), "rb").read() for name in case["change"]}
    for path, data in zip(before, case["change"].values()):
        put(path, None if data is None else base64.b64decode(data))
    ended.append(attempt(case["name"]))
    for path, data in before.items():
        put(path, data)
print(json.dumps(ended))
`;
