/**
 * Files in a bucket and the IPFS network: a CAR of any of them goes into a Kubo under the same CID,
 * and a Kubo as the second backend puts them where other nodes find them.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { carHeader, carSection, carType, cidOf, encodeNode, fileFromCar, sha256 } from '../../../shared/ipfs/index.ts';
import { concat } from '../../../shared/streams/concat.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { first, present } from '../../../testkit/present.ts';
import { kuboProgram, noKubo, startKubo, type RealKubo } from '../../../testkit/programs/kubo.ts';
import { rpcToken } from '../../../testkit/service.ts';
import { bytesOf } from '../../../testkit/api-client.ts';
import { costlyKinds, missing, startStore, type StoreUnderTest } from './store-under-test.ts';

/** A file whose leaves are smaller than ours, as another program makes it. */
async function foreignFile(): Promise<{ car: Uint8Array<ArrayBuffer>; root: string; bytes: Buffer }> {
  const chunks = Array.from({ length: 5 }, () => randomBytes(70_000));
  const blocks = await Promise.all(chunks.map(async (bytes) => ({ cid: cidOf('raw', await sha256(bytes)), bytes })));
  const links = blocks.map(({ cid, bytes }) => ({ cid, fileBytes: bytes.length, dagBytes: bytes.length }));
  const node = encodeNode(links);
  const root = cidOf('dag-pb', await sha256(node));
  const sections = [...blocks, { cid: root, bytes: node }];
  const car = concat(carHeader(root), ...sections.flatMap(({ cid, bytes }) => [carSection(cid, bytes.length), bytes]));
  return { car, root: root.text, bytes: Buffer.concat(chunks) };
}

describe.each(costlyKinds)('%s', (kind) => {
  const why = missing(kind) ?? (kuboProgram() === undefined ? noKubo : undefined);
  if (why !== undefined) {
    it.skip(why);
    return;
  }
  let near: RealKubo;
  let far: RealKubo;
  let alone: RealKubo;
  let store: StoreUnderTest;
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'sealpin-network-'));
    [near, far, alone] = await Promise.all([
      startKubo({ online: true, token: rpcToken }),
      startKubo({ online: true }),
      startKubo(),
    ]);
    const addresses = (await near.ipfs('id', '-f', '<addrs>')).split('\n');
    await far.ipfs('swarm', 'connect', present(addresses.find((line) => line.includes('/ip4/127.0.0.1/tcp/'))));
    const kubo = { id: 'kubo', type: 'kubo', url: near.url, tokenSecret: 'KUBO_TOKEN' };
    store = await startStore(kind, { others: [kubo], vars: { REPLICAS: '2' } });
  });
  afterAll(async () => {
    await store.close();
    await Promise.all([near, far, alone].map((kubo) => kubo.close()));
    await rm(dir, { recursive: true, force: true });
  });

  inCi('every file is imported by another Kubo as a CAR, and is on the network by the second backend', async () => {
    const { call } = store.owner;
    const foreign = await foreignFile();
    const cids = [
      (await call.store('plain', '')).cid,
      (await call.store('plain', randomBytes(1000))).cid,
      (await call.store('plain', randomBytes(3_500_000))).cid,
      (await call.store('encrypted', randomBytes(2_200_000))).cid,
      (await call.storePlain({}, { headers: { 'Content-Type': carType }, body: foreign.car })).cid,
    ];
    expect(cids.at(-1)).toBe(foreign.root);
    const held = new Map<string, Buffer>();
    for (const [at, cid] of cids.entries()) {
      held.set(cid, await bytesOf(fetch(`${store.service.url}/ipfs/${cid}`)));
      const path = join(dir, `${at}.car`);
      await writeFile(path, await bytesOf(fetch(`${store.service.url}/ipfs/${cid}?format=car`)));
      const imported = await alone.ipfs('dag', 'import', '--enc=json', '--stats', path);
      expect(JSON.parse(first(imported.split('\n')))).toMatchObject({ Root: { Cid: { '/': cid }, PinErrorMsg: '' } });
    }
    expect(Buffer.compare(present(held.get(foreign.root)), foreign.bytes)).toBe(0);
    await store.pass(60_000, { rounds: 3 });
    const pins = await near.ipfs('pin', 'ls', '--type=recursive', '--quiet');
    expect(cids.filter((cid) => !pins.includes(cid))).toEqual([]);
    for (const [cid, bytes] of held) {
      // Kubo gives no other node a raw block without bytes (docs/operating.md, "The network").
      if (bytes.length === 0) continue;
      const car = await fetch(`${far.gateway}/ipfs/${cid}?format=car`);
      const found = await bytesOf(new Response(fileFromCar(cid, present(car.body) as never) as never));
      expect(Buffer.compare(found, bytes), cid).toBe(0);
    }
  });
});
