/** Uploads to a real Kubo, offline and online without peers: their CIDs, and what garbage collection may do to them. */
import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { FileList, StoredFile } from '../../../shared/api.ts';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { kuboProgram, noKubo, startKubo, type RealKubo } from '../../../testkit/kubo.ts';
import { rpcToken, startService, type Service } from '../../../testkit/service.ts';
import { bytesOf, jsonOf, problemOf } from '../client.ts';
import { startPeer, type Peer } from '../peer.ts';
import { askNode, newOwner, pinned, sweep, type Owner } from '../world.ts';

const long = process.env['SEALPIN_LONG'] === '1';
/** Leaves of files whose CIDs are compared; a zero stands for the last, shorter leaf. */
const sizes = [0, 1, leafBytes - 1, leafBytes, leafBytes + 1, 16 * leafBytes, 16 * leafBytes + 1, 40 * leafBytes + 7];
const largeSizes = [174, 175, 1024, 1025].map((leaves) => leaves * leafBytes);

function uploads(online: boolean): void {
  let kubo: RealKubo;
  let peer: Peer;
  let service: Service;
  let owner: Owner;
  let dir: string;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'sealpin-engine-'));
    kubo = await startKubo({ token: rpcToken, online });
    peer = await startPeer(kubo.url);
    service = await startService({ entry: 'worker/test/clock.ts', node: kubo as never, through: () => peer.url });
  });
  beforeEach(async () => {
    peer.onCommand = undefined;
    peer.seen.length = 0;
    owner = await newOwner(service);
  });
  afterAll(async () => {
    await service.close();
    await peer.close();
    await kubo.close();
    await rm(dir, { recursive: true, force: true });
  });

  const post = (body: BodyInit, mode = 'plain'): Promise<Response> =>
    owner.call(`/v1/storage/${mode}`, {
      method: 'POST',
      headers: { 'Content-Disposition': 'attachment; filename=x' },
      body,
      ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
    });
  const read = async (file: StoredFile): Promise<Buffer> =>
    bytesOf(owner.call(`/v1/storage/${file.fileId}`, { headers: { Accept: 'application/octet-stream' } }));

  it.each(sizes)('%i bytes have the CID of `ipfs add`, and nothing but their root is pinned', async (size) => {
    const path = join(dir, `${size}`);
    const bytes = randomBytes(size);
    const file = await open(path, 'w');
    await file.writeFile(bytes);
    await file.close();
    const stored = await jsonOf<StoredFile>(post(bytes), 201);
    const added = await kubo.ipfs(
      'add',
      '-Q',
      '--only-hash',
      '--cid-version=1',
      '--chunker=size-1048576',
      '--max-file-links=1024',
      '--raw-leaves',
      path,
    );
    expect(stored.cid).toBe(added.trim());
    console.log(size, peer.seen.join(' '));
    expect((await read(stored)).equals(bytes)).toBe(true);
  });
}

if (kuboProgram() === undefined) it.skip(noKubo);
else {
  describe('a Kubo that is offline', () => uploads(false));
  describe('a Kubo that is online', () => uploads(true));
}
