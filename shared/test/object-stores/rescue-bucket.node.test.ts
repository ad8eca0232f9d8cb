/**
 * contrib/rescue.py, which was written from docs/object-stores.md alone, reads copies of buckets.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { itemOf, present } from '../../../testkit/present.ts';
import { inDirectory, run, withProgram } from '../../../testkit/programs/programs.ts';
import { bytesOf, makeCopies, type BucketCopies, type Content } from './bucket-copies.ts';
import { ci, inCi, long } from '../../../testkit/long-run.ts';

const root = join(import.meta.dirname, '../../..');
const script = join(root, 'contrib/rescue.py');
const vectors = JSON.parse(
  readFileSync(join(root, 'shared/test/vectors/object-stores/copies.json'), 'utf8'),
) as BucketCopies;
const [main] = vectors.files;

/** Writes objects as files below a folder, but for those that are null. */
function copyTo(folder: string, objects: Record<string, Content | null>): void {
  for (const [key, content] of Object.entries(objects)) {
    const path = join(folder, key);
    mkdirSync(dirname(path), { recursive: true });
    if (content !== null) writeFileSync(path, bytesOf(content));
  }
}

type Ended = { message: string | null; stdout: string; stderr: string };

/** Runs it on each list of arguments in one process. A run that takes too long ends the process. */
function runs(cases: readonly (readonly string[])[]): Ended[] {
  const stdout = run('cryptography-python', ['-c', runner, script], Buffer.from(JSON.stringify(cases)));
  return JSON.parse(new TextDecoder().decode(stdout)) as Ended[];
}

const runner = `
import contextlib, io, json, os, signal, sys
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import rescue
ended = []
for arguments in json.load(sys.stdin):
    sys.argv = ["rescue.py", *arguments]
    signal.alarm(30)
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            message = rescue.failure()
        except BaseException as error:
            message = "not caught: " + repr(error)
    ended.append({"message": message, "stdout": out.getvalue(), "stderr": err.getvalue()})
print(json.dumps(ended))
`;

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const refusal = /^rescue\.py: /;

test('the copies of buckets in the vectors are those that the page describes', () => {
  expect(makeCopies()).toEqual(vectors);
});

withProgram('cryptography-python', { probe: ['-c', 'import cryptography'], isOptional: true }, () => {
  describe('rescue.py bucket', () => {
    inCi('lists the CIDs of a copy with their bytes, below each prefix, and exits with 0', () =>
      inDirectory(async (path) => {
        copyTo(path('copy'), vectors.objects);
        const lines = new TextDecoder()
          .decode(run('cryptography-python', [script, 'bucket', path('copy')]))
          .split('\n');
        const listed = lines.filter((line) => line !== '').map((line) => line.trim().split(' '));
        const expected = vectors.files.map(({ cid, bytes }) => [String(bytes), cid]);
        expect(new Set(listed.map(String))).toEqual(new Set(expected.map(String)));
        const below = runs([['bucket', path('copy/elsewhere')]]);
        expect(below).toEqual([{ message: null, stdout: expect.stringMatching(/^ *9 bafk\S+\n$/), stderr: '' }]);
        expect(existsSync(join(root, 'contrib/__pycache__'))).toBe(false);
      }),
    );

    test('writes each file, and nothing over a file that is there', () =>
      inDirectory(async (path) => {
        copyTo(path('copy'), vectors.objects);
        const ended = runs(vectors.files.map(({ cid }, i) => ['bucket', path('copy'), cid, path(`${i}`)]));
        expect(ended.map(({ message }) => message)).toEqual(vectors.files.map(() => null));
        for (const [i, { name, sha256: sha }] of vectors.files.entries())
          expect(sha256(readFileSync(path(`${i}`))), name).toBe(sha);
        const { cid } = present(main);
        const [again, nowhere] = runs([
          ['bucket', path('copy'), cid, path('0')],
          ['bucket', path('copy'), cid.replace(/.$/, 'a'), path('none')],
        ]);
        expect(again?.message).toContain('exists');
        expect(nowhere?.message).toContain('has no such file');
        const stdout = run('cryptography-python', [script, 'bucket', path('copy'), itemOf(vectors.files, 1).cid, '-']);
        expect(new TextDecoder().decode(stdout)).toBe('hello');
      }));

    test('finds a file whose index is gone by its bytes, and says that it has none', () =>
      inDirectory(async (path) => {
        const ofKind1 = small.filter(
          ({ cid }) => bytesOf(vectors.objects[`${present(main).prefix}cid/${cid}`] ?? '')[7] === 1,
        );
        const { cid, sha256: sha } = present(ofKind1.at(-1));
        const { [`${present(main).prefix}cid/${cid}`]: index, ...rest } = objectsOf(small);
        copyTo(path('copy'), rest);
        const id = bytesOf(present(index)).subarray(8, 24).toString('hex');
        const [listed, written] = runs([
          ['bucket', path('copy')],
          ['bucket', path('copy'), cid, path('out')],
        ]);
        expect(listed?.stdout).toContain(`${cid} without an index, perhaps not whole: `);
        expect(listed?.stdout).toContain(id);
        expect(written?.message).toBe(null);
        expect(sha256(readFileSync(path('out')))).toBe(sha);
      }));

    test('reads every other file where one of them, in an index or found, is none, and says which', () =>
      inDirectory(async (path) => {
        const { cid, sha256: sha } = itemOf(small, 1);
        const copy = objectsOf(small.slice(0, 2));
        const index = present(Object.keys(copy).find((key) => key.endsWith(cid)));
        const { [index]: _, ...unnamed } = copy;
        const { prefix: below } = present(main);
        const added: Record<string, Record<string, Content | null>> = {
          'an object that is a folder': { [`data/${'0'.repeat(32)}/00000000/x`]: '' },
          'a file in place of the folder': { [`data/${'0'.repeat(32)}`]: '' },
          'no index': { [`cid/b${'a'.repeat(58)}`]: '' },
          'no object': { [`data/${'0'.repeat(32)}/.DS_Store`]: '' },
          'an object that is not whole': { [`data/${'0'.repeat(32)}/00000000.x1y2.partial`]: '' },
        };
        const names = Object.keys(added);
        for (const [i, content] of Object.values(added).entries()) {
          const placed = Object.entries(content).map(([key, bytes]) => [`${below}${key}`, bytes] as const);
          copyTo(path(`${i}`), { ...unnamed, ...Object.fromEntries(placed) });
        }
        const written = runs(names.map((__, i) => ['bucket', path(`${i}`), cid, path(`out-${i}`)]));
        const listed = runs(names.map((__, i) => ['bucket', path(`${i}`)]));
        for (const [i, name] of names.entries()) {
          expect(written[i]?.message, name).toBe(null);
          expect(sha256(readFileSync(path(`out-${i}`))), name).toBe(sha);
          const { message, stdout, stderr } = present(listed[i]);
          expect(stdout.trim().split('\n').length, name).toBe(2);
          expect(stdout, name).toContain(cid);
          expect(stderr, name).toMatch(/^.*(?:0{32}|ba{58})\S* ?.*: .+\n$/);
          if (/no object|not whole/.test(name)) expect(message, name).toBe(null);
          else expect(message, name).toBe('rescue.py: 1 of 3 files cannot be read');
        }
      }));

    test('takes an index that proves nothing as none: the objects may have the file all the same', () =>
      inDirectory(async (path) => {
        const { cid, sha256: sha } = itemOf(small, 1);
        const copy = objectsOf([itemOf(small, 1)]);
        const index = present(Object.keys(copy).find((key) => key.endsWith(cid)));
        copyTo(path('copy'), { ...copy, [index]: '' });
        copyTo(path('copy'), Object.fromEntries([[index.replace(main?.prefix ?? '', 'a/'), '']]));
        const [written] = runs([['bucket', path('copy'), cid, path('out')]]);
        expect(written?.message).toBe(null);
        expect(sha256(readFileSync(path('out')))).toBe(sha);
      }));

    inCi('refuses every index and all data that do not prove the CID, and writes nothing', () =>
      inDirectory(async (path) => {
        const cases = vectors.refused.map((refused, i) => {
          copyTo(path(`${i}`), { ...objectsOf([...small, refused]), ...refused.objects });
          return [refused, i] as const;
        });
        const written = runs(cases.map(([{ cid }, i]) => ['bucket', path(`${i}`), cid, path(`out-${i}`)]));
        const listed = runs(cases.map(([, i]) => ['bucket', path(`${i}`)]));
        for (const [{ name, cid, of }, i] of cases) {
          // The objects of kind 1 may have the file without its index.
          if (written[i]?.message === null) {
            expect(of, name).toBe('index');
            expect(sha256(readFileSync(path(`out-${i}`))), name).toBe(
              present(vectors.files.find((each) => each.cid === cid)).sha256,
            );
            continue;
          }
          expect(written[i]?.message, name).toMatch(refusal);
          for (const left of [`out-${i}`, `out-${i}.part`])
            expect(existsSync(path(left)), `${name}: ${left}`).toBe(false);
          // A list says what is not there, but does not read what is.
          if (of === 'data' && name.includes('other bytes')) continue;
          expect(listed[i]?.message, name).toMatch(/^rescue\.py: 1 of \d+ files cannot be read$/);
          expect(listed[i]?.stderr, name).toContain(`${cid}: `);
          expect(listed[i]?.stdout.split('\n').length, name).toBeGreaterThanOrEqual(small.length);
        }
      }),
    );

    inCi('ends with a sentence on folders that are no copies, and on files that never end', () =>
      inDirectory(async (path) => {
        const { cid } = itemOf(vectors.files, 1);
        const key = present(Object.keys(vectors.objects).find((each) => each.endsWith(cid)));
        const data = itemOf(
          Object.keys(vectors.objects).filter((each) => each.includes('/data/')),
          1,
        );
        const replaced = (name: string, at: string, make: (path: string) => void): string => {
          copyTo(path(name), vectors.objects);
          rmSync(join(path(name), at));
          make(join(path(name), at));
          return name;
        };
        mkdirSync(path('empty'));
        mkdirSync(path('no-files/cid'), { recursive: true });
        writeFileSync(path('a-file'), '');
        const makers: Record<string, (path: string) => void> = {
          fifo: (at) => void execFileSync('mkfifo', [at]),
          endless: (at) => symlinkSync('/dev/zero', at),
          loop: (at) => symlinkSync(at, at),
          folder: (at) => mkdirSync(at),
        };
        const folders = Object.entries(makers).flatMap(([name, make]) => [
          replaced(`${name}-index`, key, make),
          replaced(`${name}-data`, data, make),
        ]);
        const all = ['empty', 'no-files', 'a-file', 'nowhere', ...folders];
        const ended = runs(
          all.flatMap((name) => [
            ['bucket', path(name)],
            ['bucket', path(name), cid, path(`out-${name}`)],
          ]),
        );
        // Where its index alone is none, the file is found by its bytes.
        const found = new Set(Object.keys(makers).map((name) => `out-${name}-index`));
        for (const out of found) expect(readFileSync(path(out), 'utf8')).toBe('hello');
        expect(readdirSync(path('.')).filter((name) => name.startsWith('out') && !found.has(name))).toEqual([]);
        const messages = ended.map(({ message }) => message);
        expect(messages.filter((message) => message === null)).toHaveLength(found.size);
        expect(messages.filter((message) => !refusal.test(message ?? 'rescue.py: '))).toEqual([]);
        const [usage] = runs([['bucket', path('empty'), cid]]);
        expect(usage?.stderr).toContain('name an output');
      }),
    );

    inCi('gives right bytes or a sentence, whatever byte of a copy is changed, added or left out', () =>
      inDirectory(async (path) => {
        const copy = objectsOf(small);
        const names = Object.keys(copy);
        const random = fc.sample(fc.nat(), { seed: 2, numRuns: 4 * (long ? 3000 : ci ? 150 : 60) });
        const cases: string[][] = [];
        for (let i = 0; i < random.length; i += 4) {
          const [which = 0, at = 0, kind = 0, value = 0] = random.slice(i, i + 4);
          const changed = itemOf(names, which % names.length);
          const bytes = bytesOf(present(copy[changed]));
          const content = damaged(bytes, at % Math.max(1, bytes.length), kind % 4, value % 256);
          copyTo(path(`${i}`), { ...copy, [changed]: content.toString('base64') });
          for (const { cid } of small) cases.push(['bucket', path(`${i}`), cid, path(`out-${i}-${cid}`)]);
        }
        const ended = runs(cases);
        const wrong = cases.filter(([, , cid, out = ''], i) => {
          const message = ended[i]?.message ?? null;
          if (message !== null) return !refusal.test(message) || existsSync(out);
          return sha256(readFileSync(out)) !== small.find((each) => each.cid === cid)?.sha256;
        });
        expect(wrong).toEqual([]);
        expect(ended.filter(({ message }) => message === null).length).toBeGreaterThan(0);
        expect(readdirSync(path('.')).filter((name) => name.endsWith('.part'))).toEqual([]);
      }),
    );
  });
});

/** The files that are small, below the first prefix. */
const small = vectors.files.filter(({ bytes, prefix }) => bytes < 1000 && prefix === main?.prefix);

/** The objects of some files: indexes and data. */
function objectsOf(files: readonly { cid: string }[]): Record<string, Content> {
  const all = Object.entries(vectors.objects);
  const indexes = all.filter(([key]) => files.some(({ cid }) => key.endsWith(`cid/${cid}`)));
  const ids = indexes.map(([, content]) => bytesOf(content).subarray(8, 24).toString('hex'));
  return Object.fromEntries([...indexes, ...all.filter(([key]) => ids.some((id) => key.includes(`data/${id}/`)))]);
}

/** One byte changed, dropped or added, or the rest cut off. */
function damaged(bytes: Buffer, at: number, kind: number, value: number): Buffer {
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at + 1)];
  if (kind === 0) return Buffer.concat([before, Buffer.of(value), after]);
  if (kind === 1) return Buffer.concat([before, after]);
  if (kind === 2) return Buffer.concat([before, Buffer.of(value), bytes.subarray(at)]);
  return before;
}
