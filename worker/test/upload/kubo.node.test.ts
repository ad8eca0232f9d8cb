/**
 * Uploads to a real Kubo, offline and online without peers: their CIDs, and what slow clients,
 * collection and crashes do to them.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { StoredFile } from '../../../shared/api.ts';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { kuboProgram, noKubo, startKubo, type RealKubo } from '../../../testkit/programs/kubo.ts';
import { rpcToken, startService, type Service } from '../../../testkit/service.ts';
import { bytesOf, jsonOf } from '../../../testkit/api-client.ts';
import { startPeer, type Peer, type Turn } from '../peer.ts';
import { askNode, newOwner, pinned, sweep, type Owner } from '../stored-state.ts';
import { first } from '../../../testkit/present.ts';
import { long } from '../../../testkit/long-run.ts';

/**
 * The requests to Kubo of an upload in two parts. The import of the second part may overlap with
 * the pin of the first.
 */
const steps = [
  ['dag/import', 1],
  ['pin/ls', 1],
  ['pin/add', 1],
  ['dag/import', 2],
  ['dag/import', 3],
  ['pin/ls', 2],
  ['pin/add', 2],
] as const;
const beforeAndAfter = steps.flatMap((step) => [[...step, 'before'] as const, [...step, 'after'] as const]);
/**
 * Selects a case in the middle for the short form: the first part is pinned, and the second one has
 * arrived.
 */
const inForm = <T>(cases: readonly T[]): readonly T[] => (long ? cases : cases.slice(7, 8));
const sizes = [0, 1, leafBytes - 1, leafBytes, leafBytes + 1, 16 * leafBytes, 16 * leafBytes + 1, 33 * leafBytes + 7];
const fewSizes = [0, leafBytes + 1];

function uploads(online: boolean): void {
  let kubo: RealKubo;
  let peer: Peer;
  let service: Service;
  let owner: Owner;
  let dir: string;
  let pinnedBefore: string[];

  /** The service as the helpers see it, with the present address of the node. */
  const atKubo = (): Service => ({ ...service, node: kubo.url });

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'sealpin-engine-'));
    kubo = await startKubo({ token: rpcToken, online });
    peer = await startPeer(() => kubo.url);
    service = await startService({ entry: 'worker/test/clock.ts', node: kubo, through: () => peer.url });
  });
  beforeEach(async () => {
    peer.onCommand = undefined;
    owner = await newOwner(service);
    pinnedBefore = await pinned(atKubo());
  });
  afterAll(async () => {
    await service.close();
    await peer.close();
    await kubo.close();
    await rm(dir, { recursive: true, force: true });
  });

  const post = (body: BodyInit): Promise<Response> =>
    owner.call.ask('storePlain', {}, { body, ...(body instanceof ReadableStream ? { duplex: 'half' } : {}) });
  const read = async ({ fileId }: StoredFile): Promise<Buffer> => owner.call.read(fileId);
  const collect = async (): Promise<void> => void (await (await askNode(atKubo(), 'repo/gc')).text());
  const addedCid = async (path: string): Promise<string> => {
    const profile = ['--cid-version=1', '--raw-leaves', `--chunker=size-${leafBytes}`, '--max-file-links=1024'];
    return (await kubo.ipfs('add', '--quieter', '--only-hash', ...profile, path)).trim();
  };

  /** The files and pins that are left when everything that waits has had its time. */
  async function afterSweep(): Promise<{ files: string[]; pins: string[]; rows: number }> {
    const cids = [...(await owner.object.rows('part')), ...(await owner.object.rows('file'))].map((row) => row['cid']);
    await sweep(atKubo(), [owner], [...new Set(cids.map(String))]);
    const { files } = await owner.call.listFiles();
    const pins = (await pinned(atKubo())).filter((cid) => !pinnedBefore.includes(cid));
    const rows = (await owner.object.rows('part')).length + (await owner.object.rows('outbox')).length;
    return { files: files.map((file) => file.cid), pins, rows };
  }

  /** Does something the nth time that a command passes. */
  function atStep(command: string, nth: number, act: (turn: Turn) => Promise<void>): void {
    let seen = 0;
    peer.onCommand = async (turn) => {
      if (turn.command === command) seen += 1;
      if (turn.command === command && seen === nth) return act(turn);
      return (await turn.pass()).deliver();
    };
  }

  it.each(long ? sizes : fewSizes)(
    '%i bytes have the CID of `ipfs add`, and in the end nothing else is pinned',
    async (size) => {
      const path = join(dir, `${size}`);
      const bytes = randomBytes(size);
      await writeFile(path, bytes);
      const stored = await jsonOf<StoredFile>(post(bytes), 201);
      expect(stored.cid).toBe(await addedCid(path));
      expect((await read(stored)).equals(bytes)).toBe(true);
      expect(await afterSweep()).toEqual({ files: [stored.cid], pins: [stored.cid], rows: 0 });
      await collect();
      expect((await read(stored)).equals(bytes)).toBe(true);
    },
  );

  // 17 leaves are one more than a part has; 175 are one more than Kubo puts below a node by
  // default.
  it.each(long ? [17, 174, 175, 1024, 1025] : [17])('%i equal leaves have the CID of `ipfs add`', async (leaves) => {
    const path = join(dir, `${leaves}-leaves`);
    await writeFile(path, '');
    await truncate(path, leaves * leafBytes);
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent === leaves) controller.close();
        else controller.enqueue(new Uint8Array(leafBytes));
        sent += 1;
      },
    });
    const stored = await jsonOf<StoredFile>(post(body as BodyInit), 201);
    expect(stored).toMatchObject({ cid: await addedCid(path), size: leaves * leafBytes });
    expect(await afterSweep()).toEqual({ files: [stored.cid], pins: [stored.cid], rows: 0 });
    await collect();
    const range = { Accept: 'application/octet-stream', Range: `bytes=${(leaves - 1) * leafBytes}-` };
    const end = await bytesOf(owner.call.ask('getFile', { fileId: stored.fileId }, { headers: range }));
    expect(end.equals(Buffer.alloc(leafBytes))).toBe(true);
  });

  describe('a slow client', () => {
    /**
     * Announces 3 leaves, sends one and a half of them, and then 20 kB a second until it is closed.
     */
    async function trickle(bytes: Buffer): Promise<{ socket: Socket; response: Promise<string>; rest(): void }> {
      const { host, hostname, port } = new URL(service.url);
      const socket = connect(Number(port), hostname);
      await new Promise((resolve) => socket.once('connect', resolve));
      const head = `POST /v1/storage/plain HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${owner.call.apiKey}\r\n`;
      socket.write(`${head}Content-Length: ${bytes.length}\r\n\r\n`);
      let sent = 1.5 * leafBytes;
      socket.write(bytes.subarray(0, sent));
      const timer = setInterval(() => {
        socket.write(bytes.subarray(sent, sent + 2000));
        sent += 2000;
      }, 100);
      socket.once('close', () => clearInterval(timer));
      const response = new Promise<string>((resolve) => socket.once('data', (data) => resolve(data.toString())));
      return {
        socket,
        response,
        rest() {
          clearInterval(timer);
          socket.write(bytes.subarray(sent));
        },
      };
    }
    const parts = async (state: string): Promise<number> =>
      (await owner.object.rows('part')).filter((row) => row['state'] === state).length;

    it('and a collection of garbage do not hold up another upload', async () => {
      const begun = new Promise<void>((resolve) => {
        peer.onBody = (bytes) => {
          if (bytes > leafBytes / 2) resolve();
        };
      });
      const slow = await trickle(randomBytes(3 * leafBytes));
      await begun;
      const collected = collect();
      // A collection that comes between its import and its pin takes its bytes; then the client is
      // told to send them again.
      let response: Response;
      do {
        const ended = slow.response.then(() => {
          throw new Error('the slow upload ended first');
        });
        response = await Promise.race([post('abc'), ended]);
      } while (response.status === 503);
      const { cid } = await jsonOf<StoredFile>(response, 201);
      await collected;
      slow.socket.destroy();
      peer.onBody = undefined;
      // Where the collection took long, the slow one has a pinned part, which the next test would
      // take for its own.
      await expect.poll(afterSweep).toEqual({ files: [cid], pins: [cid], rows: 0 });
    });

    it('has a part pinned within seconds, which a collection of garbage does not take', async () => {
      const bytes = randomBytes(3 * leafBytes);
      const slow = await trickle(bytes);
      await expect.poll(() => parts('pinned')).toBe(1);
      await collect();
      slow.rest();
      expect(await slow.response).toMatch(/^HTTP\/1.1 201 /);
      slow.socket.destroy();
      const { files } = await owner.call.listFiles();
      expect((await read(first(files))).equals(bytes)).toBe(true);
      expect(await afterSweep()).toEqual({ files: [first(files).cid], pins: [first(files).cid], rows: 0 });
    });
  });

  // A node that is online searches for what is missing until its time limit: there, two steps stand
  // for all.
  const collections = online
    ? beforeAndAfter.filter(([, , when], index) => when === 'after' && index % 8 === 1)
    : beforeAndAfter;
  it.each(inForm(collections))(
    'garbage is collected at %s %i, %s: an error that says when to retry, or a whole file',
    async (command, nth, when) => {
      const bytes = randomBytes(17 * leafBytes);
      atStep(command, nth, async (turn) => {
        if (when === 'before') await collect();
        const { deliver } = await turn.pass();
        if (when === 'after') await collect();
        deliver();
      });
      const response = await post(bytes);
      peer.onCommand = undefined;
      if (response.status !== 201) {
        expect(response.status).toBe(503);
        expect(Number(response.headers.get('Retry-After'))).toBeGreaterThan(0);
        expect(await response.json()).toMatchObject({ code: 'pinning_unavailable' });
        expect(await owner.object.rows('part')).toEqual([]);
        expect(await owner.object.rows('file')).toEqual([]);
        expect(await afterSweep()).toEqual({ files: [], pins: [], rows: 0 });
      }
      const stored =
        response.status === 201 ? await jsonOf<StoredFile>(response, 201) : await jsonOf<StoredFile>(post(bytes), 201);
      await collect();
      expect((await read(stored)).equals(bytes)).toBe(true);
      expect(await afterSweep()).toEqual({ files: [stored.cid], pins: [stored.cid], rows: 0 });
    },
  );

  describe.skipIf(online)('S82: Kubo dies', () => {
    it.each(inForm(beforeAndAfter))('at %s %i, %s: nothing is left of the upload', async (command, nth, when) => {
      const bytes = randomBytes(17 * leafBytes);
      const acknowledged = `before ${command} ${nth}, ${when}`;
      const kept = await jsonOf<StoredFile>(post(acknowledged), 201);
      const { promise: restarted, resolve } = Promise.withResolvers<void>();
      atStep(command, nth, async (turn) => {
        if (when === 'after') await turn.pass();
        await kubo.kill();
        await kubo.start();
        turn.cut();
        resolve();
      });
      const [response] = await Promise.all([post(bytes), restarted]);
      peer.onCommand = undefined;
      // It is a timeout where Kubo takes long to start.
      const { code } = await response.json<{ code: string }>();
      expect(['503 pinning_unavailable', '504 pinning_timeout']).toContain(`${response.status} ${code}`);
      expect(Number(response.headers.get('Retry-After'))).toBeGreaterThan(0);
      expect(await afterSweep()).toEqual({ files: [kept.cid], pins: [kept.cid], rows: 0 });
      expect((await read(kept)).toString()).toBe(acknowledged);
      const { cid } = await jsonOf<StoredFile>(post(bytes), 201);
      expect((await afterSweep()).pins.toSorted()).toEqual([cid, kept.cid].toSorted());
    });
  });
}

if (kuboProgram() === undefined) it.skip(noKubo);
else {
  describe('a Kubo that is offline', () => uploads(false));
  // In the short form `pinning/real` has the adapter at one that is online, and `pinning/network`
  // the service.
  if (long) describe('a Kubo that is online', () => uploads(true));
  else it.skip('a Kubo that is online: in the long form');
}
