/** Large files that a command writes where the node of the local service keeps them. */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, open, readdir, readFile, readlink, rename, stat, symlink, writeFile } from 'node:fs/promises';
import { request, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { cidOfBytes } from '../../../testkit/cid.ts';
import { long } from '../../../testkit/long-run.ts';
import { present } from '../../../testkit/present.ts';
import { onSmallDisk } from '../../../testkit/small-disk.ts';
import { localPaths } from '../../local/state.ts';
import { storeInPlace } from '../../store/in-place.ts';
import { temporaryDirectory } from '../environment.ts';
import { api, ask, endedAfterEach, remove, startHere, type RunningHere } from '../local/harness.ts';
import { entry } from '../../../testkit/programs/command-line.ts';
import { storing } from './public-service.ts';

let service: RunningHere;
beforeAll(async () => {
  service = await startHere();
});
afterAll(() => remove(service));

const largeBytes = 3 * leafBytes + 5;
const bytes = randomBytes(largeBytes);
const dataOf = ({ dataDir }: Pick<RunningHere, 'dataDir'>): string => localPaths(dataDir).data;
const filesOnDisk = (): Promise<string[]> => readdir(dataOf(service));

/** Begins a request that says of so many bytes that they are written in place. */
function begin({ key = service.apiKey, url = service.url, length = largeBytes } = {}) {
  const sent = request(`${url}/v1/storage/plain`, {
    method: 'POST',
    agent: false,
    // More than one for 32 bytes, as a smaller body is not handed over.
    headers: {
      ...storing(key),
      'content-length': leafBytes,
      expect: '100-continue',
      'sealpin-in-place': length,
    },
  });
  let name: string | undefined;
  sent.on('information', ({ headers: told }) => (name ??= /^<([0-9a-f]{32})>/.exec(String(told['link']))?.[1]));
  const answer = (async () => {
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    return { status: response.statusCode, body: (await json(response)) as Record<string, unknown> };
  })();
  answer.catch(() => undefined);
  sent.on('error', () => undefined);
  return { sent, answer, nameTold: () => name };
}

/** An upload whose file the service has made. */
async function begun(o?: Parameters<typeof begin>[0] & { dataDir?: string }) {
  const { sent, answer, nameTold } = begin(o);
  await once(sent, 'continue');
  const path = join(localPaths(o?.dataDir ?? service.dataDir).data, `${present(nameTold())}.part`);
  const file = await open(path, 'r+');
  onTestFinished(() => file.close());
  let noted = 0;
  /** Says that so many bytes are there. */
  const note = (end: number, total = Math.floor(end / 32)): void => {
    sent.write(Buffer.alloc(total - noted));
    noted = total;
  };
  /** Says that everything is. */
  const end = (): void => {
    note(largeBytes, leafBytes);
    sent.end();
  };
  return { sent, answer, path, file, note, end };
}
type Attempt = Awaited<ReturnType<typeof begun>>;

afterEach(async () => {
  const { files } = await api(service).listFiles();
  for (const { fileId } of files) await ask(service, 'deleteFile', { fileId });
  // Whatever came of it, nothing is left that is not complete.
  await expect.poll(async () => (await filesOnDisk()).filter((each) => each.endsWith('.part'))).toEqual([]);
});

describe('a file that is written where the node keeps it', () => {
  test('is hashed and kept there, for its user alone', async () => {
    const { answer, file, path, note, end } = await begun();
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    await file.write(randomBytes(largeBytes), 0, largeBytes, 0);
    await file.write(bytes, 0, leafBytes + 100, 0);
    note(leafBytes + 100);
    // Meanwhile the node could read more than was announced.
    await sleep(50);
    await file.write(bytes, leafBytes + 100, undefined, leafBytes + 100);
    end();
    const { status, body } = await answer;
    expect({ status, body }).toMatchObject({
      status: 201,
      body: { cid: await cidOfBytes(bytes), size: largeBytes, pins: [{ status: 'pinned' }] },
    });
    expect((await readFile(path.slice(0, -'.part'.length))).equals(bytes)).toBe(true);
    expect((await api(service).getFileContent({ fileId: String(body['fileId']) })).equals(bytes)).toBe(true);
  });

  test('stays whole when the same bytes are deleted meanwhile', async () => {
    const first = await api(service).store('plain', bytes, { type: 'application/octet-stream' });
    const { answer, file, note, end } = await begun();
    await file.write(bytes);
    note(leafBytes);
    await ask(service, 'deleteFile', { fileId: first.fileId });
    end();
    const fileId = String((await answer).body['fileId']);
    expect((await api(service).getFileContent({ fileId })).equals(bytes)).toBe(true);
  });

  const faults: Record<string, (o: Attempt) => Promise<unknown>> = {
    'is shorter than it is said to be': ({ file }) => file.write(bytes, 1),
    'is longer than it is said to be': ({ file }) => file.write(Buffer.concat([bytes, bytes])),
    'is not there when it is said to be': async ({ note, answer }) => {
      note(largeBytes);
      await answer;
    },
    'is another file by then': async ({ path }) => {
      const other = join(await temporaryDirectory(), 'other');
      await rename(path, other);
      await writeFile(path, bytes);
    },
    'is a symbolic link by then': async ({ path }) => {
      const other = join(await temporaryDirectory(), 'other');
      await rename(path, `${other}.moved`);
      await writeFile(other, bytes);
      await symlink(other, path);
    },
  };
  test.each(Object.entries(faults))('and %s is not stored', async (_, act) => {
    const attempt = await begun();
    await act(attempt);
    attempt.end();
    expect(await attempt.answer).toMatchObject({ status: 502, body: { code: 'pinning_failed' } });
  });

  const refused: Record<string, [status: number, o: () => Promise<Parameters<typeof begin>[0]>]> = {
    'its key is revoked': [
      401,
      async () => {
        const key = await api(service).withKey(['write']);
        await ask(service, 'revokeKey', { id: key.id });
        return { key: key.apiKey };
      },
    ],
    'its key may not store so much': [
      413,
      async () => {
        const limits = { bytes: largeBytes - 1 };
        const key = await api(service).createKey({ label: 'limited', scopes: ['write'], limits });
        return { key: key.apiKey };
      },
    ],
  };
  test.each(Object.entries(refused))('is refused before there is one where %s', async (_, [status, options]) => {
    const before = await filesOnDisk();
    const { sent, answer, nameTold } = begin(await options());
    expect(await answer).toMatchObject({ status });
    expect(await filesOnDisk()).toEqual(before);
    expect(nameTold()).toBeUndefined();
    sent.destroy();
  });

  test('is not stored when its key is revoked meanwhile', async () => {
    const key = await api(service).withKey(['write']);
    const attempt = await begun({ key: key.apiKey });
    expect((await ask(service, 'revokeKey', { id: key.id })).status).toBe(200);
    await attempt.file.write(bytes);
    attempt.end();
    expect(await attempt.answer).toMatchObject({ status: 401 });
  });

  test.each([0, leafBytes, largeBytes])('whose client leaves after %i bytes leaves nothing', async (end) => {
    const before = await filesOnDisk();
    const { sent, file, note } = await begun();
    await file.write(bytes, 0, end);
    note(end);
    sent.destroy();
    await expect.poll(filesOnDisk).toEqual(before);
  });
});

const secret = { SEALPIN_PASSWORD: 'correct horse battery staple' };

/** A file of so many bytes, which takes no room. */
async function sparse(size: number): Promise<string> {
  const path = join(await temporaryDirectory(), 'plain');
  const file = await open(path, 'w');
  await file.truncate(size);
  await file.close();
  return path;
}

/** A command that encrypts, and has begun to write into the folder of the node. */
async function encrypting(dataDir: string): Promise<ChildProcess & { stderrText(): string }> {
  const child = spawn(process.execPath, [entry, 'encrypt', await sparse(2 ** 34), `--data-dir=${dataDir}`], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ...secret },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let told = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (told += text));
  const hasOpened = async (): Promise<boolean> => {
    const folder = `/proc/${child.pid}/fd`;
    const links = (await readdir(folder)).map((name) => readlink(join(folder, name)).catch(() => ''));
    return (await Promise.all(links)).some((path) => path.startsWith(localPaths(dataDir).data));
  };
  await expect.poll(hasOpened, { timeout: 20_000 }).toBe(true);
  return Object.assign(child, { stderrText: () => told });
}

describe.runIf(process.platform === 'linux')('a command', () => {
  test.each([
    ['SIGKILL', null],
    ['SIGINT', 130],
  ] as const)('that ends by %s while it writes leaves nothing', async (signal, code) => {
    const before = await filesOnDisk();
    const child = await encrypting(service.dataDir);
    child.kill(signal);
    expect((await once(child, 'close'))[0]).toBe(code);
    await expect.poll(filesOnDisk).toEqual(before);
    if (code !== null) expect(child.stderrText()).toContain('nothing was stored: the same command begins again');
  });

  const { started } = endedAfterEach();
  test.runIf(long)(
    'whose service is killed writes on for nobody, and the next start removes what it has left',
    async () => {
      const first = await started();
      const { url, apiKey: key, dataDir } = first;
      // Nothing written, something, and everything, beside a command that writes on.
      for (const end of [0, leafBytes, largeBytes]) {
        const { file, note } = await begun({ url, key, dataDir });
        await file.write(bytes, 0, end);
        note(end);
      }
      const child = await encrypting(dataDir);
      const closed = once(child, 'close');
      await first.end('SIGKILL');
      expect(await readdir(dataOf(first))).toHaveLength(4);
      const second = await started({ dataDir });
      expect(await readdir(dataOf(second))).toEqual([]);
      child.kill('SIGKILL');
      await closed;
      expect((await api(second).listFiles()).files).toEqual([]);
    },
  );
});

const name = '0a'.repeat(16);
const link = `<${name}>; rel=item`;
/** What may be where the service says that its file is, and the header that says so. */
const places: Record<string, (path: string, folder: string) => Promise<string | undefined>> = {
  'is not there, as the service runs elsewhere': async () => link,
  'is a symbolic link': async (path, folder) => {
    await writeFile(join(folder, 'other'), '');
    await symlink('other', path);
    return link;
  },
  'is a folder': async (path) => {
    await mkdir(path);
    return link;
  },
  'has bytes': async (path) => {
    await writeFile(path, 'bytes');
    return link;
  },
  'is outside of the folder': async (_, folder) => {
    await writeFile(join(folder, '..', `${name}.part`), '');
    return `<../${name}>; rel=item`;
  },
  'is not named, as by an older service': async () => undefined,
};

test.each(Object.entries(places))('what cannot be written because its file %s is sent', async (_, make) => {
  const folder = join(await temporaryDirectory(), 'data');
  await mkdir(folder);
  const told = await make(join(folder, `${name}.part`), folder);
  const sent: string[] = [];
  const body = { stream: new Blob(['bytes']).stream(), bytes: 5, car: false };
  const result = storeInPlace(folder, body, async ({ stream }, { headers, onInformation }) => {
    onInformation?.(103, { link: told });
    let text = headers === undefined ? '' : 'in place ';
    for await (const chunk of stream) text += Buffer.from(chunk).toString();
    sent.push(text);
    return 'stored';
  });
  expect(await result).toBe('stored');
  expect(sent).toEqual(['bytes']);
});

test.runIf(long)('a command that fills the disk says so, and leaves nothing', async (context) => {
  const ran = await onSmallDisk(context, {
    disk: await temporaryDirectory(),
    mebibytes: 48,
    script: `
      run() { "$NODE" --no-warnings "$ENTRY" "$@" --data-dir="$DISK/home"; }
      run start --detach --port=0 --quiet
      run encrypt "$PLAIN"; echo "exit $?"
      sleep 1; ls "$DISK/home/local/ipfs/data"
      run stop --quiet
    `,
    env: { ENTRY: entry, PLAIN: await sparse(2 ** 27), ...secret },
  });
  expect(ran.stdout).toMatch(/\nexit 7\n$/);
  expect(ran.stderr).toContain('cannot be written: the disk is full');
});
