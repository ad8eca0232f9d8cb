/**
 * Power cuts: a library that is preloaded into the processes of a service keeps what was synced,
 * and when. From it a disk is put together as it was at some moment, without all that the system
 * still had in memory: what was acknowledged by then is there.
 */
import { createHash, randomBytes, randomInt } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile, realpath, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { inCi, long } from '../../../testkit/long-run.ts';
import { present } from '../../../testkit/present.ts';
import { installed, run, withProgram } from '../../../testkit/programs/programs.ts';
import { temporaryDirectory } from '../environment.ts';
import { here, startLocal } from '../local/harness.ts';
import { adminTokenOf, ask, newAccount, origin, startPublic, storing, type PublicService } from './public-service.ts';

/** What was synced of a file or folder, by `power-loss.c`. */
type Synced = { readonly time: bigint; readonly kind: string; readonly id: string; readonly path: string };

async function syncedIn(log: string): Promise<Synced[]> {
  const names = (await readdir(log)).filter((name) => !name.startsWith('.'));
  const all = names.map((name) => {
    const [time = '', kind = '', inode, birth] = name.split('.');
    return { time: BigInt(time), kind, id: `${inode} ${birth}`, path: join(log, name) };
  });
  return all.toSorted((a, b) => (a.time < b.time ? -1 : 1));
}

/**
 * Puts the disk together as it was at a time.
 * @param o.root the ID of the folder that becomes `to`
 */
async function diskAt(time: bigint, { log, root, to }: { log: string; root: string; to: string }): Promise<void> {
  const last = new Map<string, Synced>();
  for (const each of await syncedIn(log)) if (each.time <= time) last.set(`${each.kind} ${each.id}`, each);
  const fill = async (id: string, folder: string): Promise<void> => {
    await mkdir(folder, { mode: 0o700 });
    const names = last.get(`d ${id}`);
    if (names === undefined) return;
    for (const line of (await readFile(names.path, 'utf8')).split('\n').filter((each) => each !== '')) {
      const [, kind = '', inner = '', name = ''] = present(/^(\w) (\d+ -?\d+) (.*)$/.exec(line));
      const path = join(folder, name);
      const bytes = last.get(`${kind} ${inner}`)?.path;
      if (kind === 'd') await fill(inner, path);
      else if (bytes === undefined) await writeFile(path, '', { mode: 0o600 });
      else await copyFile(bytes, path);
    }
  };
  await fill(root, to);
}

/** What a user was told, and until when it holds. `check` fails where it does not. */
type Told = { readonly since: bigint; until?: bigint; check(service: PublicService): Promise<void> };

const now = (): bigint => process.hrtime.bigint();
const digestOf = (bytes: Uint8Array | string): string => createHash('sha256').update(bytes).digest('base64');
const json = { 'content-type': 'application/json' };

/** Uses a service, and writes down what it was told. */
class User {
  readonly told: Told[] = [];
  readonly #service: PublicService;
  readonly #headers: Record<string, string>;

  constructor(service: PublicService, apiKey: string) {
    this.#service = service;
    this.#headers = { authorization: `Bearer ${apiKey}` };
  }

  async store(mode: 'plain' | 'encrypted', length: number): Promise<{ fileId: string; told: Told }> {
    const body = randomBytes(length);
    const apiKey = present(this.#headers['authorization']).slice('Bearer '.length);
    const stored = await ask(this.#service, `/v1/storage/${mode}`, { method: 'POST', headers: storing(apiKey), body });
    const since = now();
    expect(stored.status, stored.body).toBe(201);
    const { fileId } = JSON.parse(stored.body) as { fileId: string };
    const headers = { ...this.#headers, accept: 'application/octet-stream', 'want-repr-digest': 'sha-256=1' };
    const check = async (service: PublicService): Promise<void> => {
      const read = await ask(service, `/v1/storage/${fileId}/content`, { headers });
      expect(read.status, `${mode} ${fileId}: ${read.body.slice(0, 300)}`).toBe(200);
      expect(digestOf(read.bytes), fileId).toBe(digestOf(body));
    };
    const told: Told = { since, check };
    this.told.push(told);
    return { fileId, told };
  }

  async delete({ fileId, told }: { fileId: string; told: Told }): Promise<void> {
    told.until = now();
    const path = `/v1/storage/${fileId}`;
    const { body } = await ask(this.#service, path, { method: 'DELETE', headers: this.#headers });
    const since = now();
    expect(JSON.parse(body)).toMatchObject({ fileId });
    this.told.push({
      since,
      check: async (service) => {
        expect((await ask(service, path, { headers: this.#headers })).status, `deleted ${fileId}`).toBe(404);
      },
    });
  }

  async key(): Promise<void> {
    const made = await ask(this.#service, '/v1/keys', {
      method: 'POST',
      headers: { ...this.#headers, ...json },
      body: JSON.stringify({ label: 'second', scopes: ['read'] }),
    });
    const since = now();
    const { apiKey } = JSON.parse(made.body) as { apiKey: string };
    const check = async (service: PublicService): Promise<void> => {
      const headers = { authorization: `Bearer ${apiKey}` };
      expect((await ask(service, '/v1/account', { headers })).status, 'a key').toBe(200);
    };
    this.told.push({ since, check });
  }

  async share(fileId: string): Promise<void> {
    const made = await ask(this.#service, '/v1/shares', {
      method: 'POST',
      headers: { ...this.#headers, ...json },
      body: JSON.stringify({ record: 'AAAA', files: [fileId], password: false }),
    });
    const since = now();
    const { id } = JSON.parse(made.body) as { id: string };
    const check = async (service: PublicService): Promise<void> => {
      const { body } = await ask(service, `/v1/shares/${id}`);
      expect(JSON.parse(body), 'a share').toMatchObject({ state: 'active' });
    };
    this.told.push({ since, check });
  }

  /** Uploads in two requests. Each offset that was told is there, or the file is. */
  async upload(length: number): Promise<void> {
    const bytes = randomBytes(length);
    const tus = { ...this.#headers, 'tus-resumable': '1.0.0' };
    const headers = { ...tus, 'upload-length': String(length), 'upload-metadata': 'filename bg==' };
    const begun = await ask(this.#service, '/v1/uploads/plain', { method: 'POST', headers });
    const path = present(begun.headers['location']);
    let told: Told | undefined;
    for (const [from, to] of [
      [0, length >> 1],
      [length >> 1, length],
    ] as const) {
      const sent = await ask(this.#service, path, {
        method: 'PATCH',
        headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': String(from) },
        body: bytes.subarray(from, to),
      });
      const since = now();
      expect(sent, sent.body).toMatchObject({ status: 204, headers: { 'upload-offset': String(to) } });
      if (told !== undefined) told.until = since;
      const check = async (service: PublicService): Promise<void> => {
        const at = await ask(service, path, { method: 'HEAD', headers: tus });
        expect(Number(at.headers['upload-offset']), `upload ${at.status}`).toBeGreaterThanOrEqual(to);
      };
      told = { since, check };
      this.told.push(told);
    }
  }
}

/** Uses a service in all ways, so many times over. */
async function history(user: User, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    const [small, sealed, third] = await Promise.all([
      user.store('plain', randomInt(1, 3000)),
      user.store('encrypted', randomInt(1, 300_000)),
      user.store('plain', randomInt(1_000_000, 3_000_000)),
    ]);
    await Promise.all([user.key(), user.share(sealed.fileId), user.upload(randomInt(2, 2_500_000))]);
    await Promise.all([user.delete(small), user.store('encrypted', 50), user.delete(third)]);
  }
  await user.store('encrypted', 17_000_000);
}

/** A data directory, and the environment of the processes whose syncs of it are kept in `log`. */
async function watched() {
  const [dataDir, log] = [await realpath(await temporaryDirectory()), await realpath(await temporaryDirectory())];
  const library = join(await temporaryDirectory(), 'power-loss.so');
  const source = join(import.meta.dirname, 'power-loss.c');
  run(installed('cc'), ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
  return { dataDir, log, env: { LD_PRELOAD: library, POWER_ROOT: dataDir, POWER_LOG: log } };
}

/** The data directory as the disk had it at a time. */
async function homeAt(time: bigint, { dataDir, log }: { dataDir: string; log: string }): Promise<string> {
  const { ino, birthtimeNs } = await stat(dataDir, { bigint: true });
  const to = join(await realpath(await temporaryDirectory()), 'home');
  await diskAt(time, { log, root: `${ino} ${birthtimeNs}`, to });
  return to;
}

withProgram('cc', { probe: ['--version'] }, () => {
  inCi(
    'what was acknowledged before a power cut is there after it, at any moment',
    async () => {
      const { dataDir, log, env } = await watched();
      const begun = await startLocal({ dataDir, args: [`--origin=${origin}`], env });
      const service = Object.assign(begun, { adminToken: await adminTokenOf(dataDir) });
      onTestFinished(() => service.end('SIGKILL').then(() => undefined));
      const apiKey = await newAccount(service);
      const since = now();
      const user = new User(service, apiKey);
      await history(user, long ? 6 : 1);
      const end = now();
      await service.end('SIGKILL');

      const times = user.told.map(({ since: time }) => time);
      const span = Number(end - since);
      const cuts = long
        ? [...times, ...Array.from({ length: 40 }, () => since + BigInt(randomInt(span)))]
        : [end, present(times[randomInt(times.length)]), since + BigInt(randomInt(span))];
      for (const time of cuts) {
        const after = await startPublic({ dataDir: await homeAt(time, { dataDir, log }) });
        try {
          for (const each of user.told) if (each.since <= time && (each.until ?? end) >= time) await each.check(after);
        } finally {
          await after.end();
        }
      }
    },
    long ? 3_600_000 : 120_000,
  );

  // Kept by the same sync as what is sent, which the test above cuts off.
  test.runIf(long)('what a command has written where the node keeps it is there after it, too', async () => {
    const { dataDir, log, env } = await watched();
    const service = await startLocal({ dataDir, env });
    onTestFinished(() => service.end('SIGKILL').then(() => undefined));
    const plain = join(await temporaryDirectory(), 'plain');
    await writeFile(plain, randomBytes(33 * 2 ** 20));
    const secret = { SEALPIN_PASSWORD: 'correct horse battery staple' };
    const stored = await here(['encrypt', plain, `--data-dir=${dataDir}`], secret);
    const time = now();
    expect(stored).toMatchObject({ code: 0 });
    await service.end('SIGKILL');
    const home = await homeAt(time, { dataDir, log });
    const after = await startLocal({ dataDir: home });
    onTestFinished(() => after.end().then(() => undefined));
    const back = `${plain}.back`;
    const read = await here(['decrypt', stored.stdout.trim(), back, `--data-dir=${home}`], secret);
    expect(read).toMatchObject({ code: 0 });
    expect((await readFile(back)).equals(await readFile(plain))).toBe(true);
  });
});
