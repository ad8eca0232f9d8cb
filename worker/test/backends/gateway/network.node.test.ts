/**
 * The whole idea on real Kubo nodes: the service on one of them by configuration alone, the bytes
 * from another one by blob ID.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { encrypt, open, passwordIdentity, passwordRecipient } from '../../../../shared/crypto/index.ts';
import { cidOf, gateway, leafBytes, openFile, sha256 } from '../../../../shared/ipfs/index.ts';
import { kubo } from '../../../backends/kubo/kubo.ts';
import { withNetwork } from '../../../backends/network.ts';
import { bytesOf, problemOf } from '../../../../testkit/api-client.ts';
import { cidOfBytes } from '../../../../testkit/cid.ts';
import { rpcToken, startService, type Service } from '../../../../testkit/service.ts';
import { newOwner, pinned, sweep, type Owner } from '../../stored-state.ts';
import { kuboProgram, noKubo, startKubo, type RealKubo } from '../../../../testkit/programs/kubo.ts';
import { first, present } from '../../../../testkit/present.ts';
import { long } from '../../../../testkit/long-run.ts';

async function container(plaintext: Uint8Array, password: string): Promise<{ bytes: Buffer; cid: string }> {
  const recipients = [passwordRecipient(password, { name: 'scrypt', logN: 10 })];
  const encrypted = await encrypt(new Blob([plaintext]).stream(), { format: 'sealpin', recipients });
  const { stream } = encrypted;
  const bytes = Buffer.from(await new Response(stream as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer());
  return { bytes, cid: await cidOfBytes(bytes) };
}

async function decrypted(bytes: ReadableStream<Uint8Array>, password: string): Promise<Buffer> {
  const opened = await open(bytes);
  if (opened.kind !== 'sealpin') throw new Error(`it is ${opened.kind}`);
  return Buffer.from(
    await new Response(
      (await opened.decrypt([passwordIdentity(password)])) as ReadableStream<Uint8Array<ArrayBuffer>>,
    ).arrayBuffer(),
  );
}

if (kuboProgram() === undefined) {
  test.skip(noKubo);
} else {
  describe('the service on a real Kubo', () => {
    let near: RealKubo;
    let far: RealKubo;
    let service: Service;
    let owner: Owner;
    let dir: string;

    beforeAll(async () => {
      dir = await mkdtemp(join(tmpdir(), 'sealpin-network-'));
      [near, far] = await Promise.all([startKubo({ online: true, token: rpcToken }), startKubo({ online: true })]);
      const [address] = (await near.ipfs('id', '-f', '<addrs>'))
        .split('\n')
        .filter((line) => line.includes('/ip4/127.0.0.1/tcp/'));
      await far.ipfs('swarm', 'connect', present(address));
      service = await startService({ node: near, entry: 'worker/test/clock.ts' });
      owner = await newOwner(service);
    });
    afterAll(async () => {
      await service.close();
      await Promise.all([near.close(), far.close()]);
      await rm(dir, { recursive: true, force: true });
    });

    test('a blob stored at one node is read from another by its blob ID, and opened with the password', async () => {
      const plaintext = randomBytes(3_000_000);
      const { bytes, cid } = await container(plaintext, 'a password of the tests');
      const file = await owner.call.store('plain', bytes);
      expect(file.cid).toBe(cid);

      const served = await fetch(`${far.gateway}/ipfs/${cid}`);
      expect(served.status).toBe(200);
      expect(
        (await decrypted(served.body as unknown as ReadableStream<Uint8Array>, 'a password of the tests')).equals(
          plaintext,
        ),
      ).toBe(true);

      const trustless = await openFile(cid, [gateway({ url: far.gateway })]);
      expect((await decrypted(trustless.read(), 'a password of the tests')).equals(plaintext)).toBe(true);
      const part = Buffer.from(
        await new Response(
          trustless.read(1_500_000, 2_500_000) as ReadableStream<Uint8Array<ArrayBuffer>>,
        ).arrayBuffer(),
      );
      expect(part.equals(bytes.subarray(1_500_000, 2_500_000))).toBe(true);
    });

    test.each((['encrypted', 'plain'] as const).slice(long ? 0 : 1))(
      '%s: stored, pinned, read, deleted, unpinned',
      async (mode) => {
        const bytes = randomBytes(2_200_000);
        const file = await owner.call.store(mode, bytes);
        expect(await pinned(service)).toContain(file.cid);
        const back = await owner.call.read(file.fileId);
        expect(back.equals(bytes)).toBe(true);
        const part = await bytesOf(
          owner.call.ask(
            'getFile',
            { fileId: file.fileId },
            { headers: { Accept: 'application/octet-stream', Range: 'bytes=1048570-1048580' } },
          ),
        );
        expect(part.equals(bytes.subarray(1_048_570, 1_048_581))).toBe(true);
        expect((await owner.call.ask('deleteFile', { fileId: file.fileId })).status).toBe(200);
        await sweep(service, [owner], [file.cid]);
        expect(await pinned(service)).not.toContain(file.cid);
      },
    );

    test('the CAR of /ipfs/ is taken by ipfs dag import, with the same root', async () => {
      const file = await owner.call.store('plain', randomBytes(2_500_000));
      const car = await bytesOf(fetch(`${service.url}/ipfs/${file.cid}?format=car`));
      await writeFile(join(dir, 'export.car'), car);
      const imported = await far.ipfs('dag', 'import', '--enc=json', '--stats', join(dir, 'export.car'));
      expect(JSON.parse(first(imported.split('\n')))).toMatchObject({
        Root: { Cid: { '/': file.cid }, PinErrorMsg: '' },
      });
      expect(await far.ipfs('--offline', 'dag', 'stat', '--progress=false', file.cid)).toContain(file.cid);
    });

    test('an upload that breaks off pins nothing', async () => {
      const before = await pinned(service);
      const answer = await owner.call.ask(
        'storePlain',
        { cid: 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku' },
        { headers: { 'Content-Type': 'a/b' }, body: randomBytes(1_500_000) },
      );
      expect(await problemOf(answer)).toBe('422 cid_mismatch');
      await sweep(service, [owner], []);
      expect(await pinned(service)).toEqual(before);
    });

    describe('what the Kubo has lost, and another node has', () => {
      test.each(['all of it', 'one leaf'])('%s is read from the network, and pinned again', async (lost) => {
        const bytes = randomBytes(2 * leafBytes + 5);
        const file = await owner.call.store('plain', bytes);
        await far.ipfs('pin', 'add', file.cid);
        await near.ipfs('pin', 'rm', file.cid);
        if (lost === 'all of it') await near.ipfs('repo', 'gc');
        else await near.ipfs('block', 'rm', cidOf('raw', await sha256(bytes.subarray(leafBytes, 2 * leafBytes))).text);
        const read = await owner.call.getFileContent({ fileId: file.fileId });
        expect(read.equals(bytes)).toBe(true);
        await expect.poll(() => near.ipfs('pin', 'ls', '--type=recursive')).toContain(file.cid);
      });

      test('is found by its CID as well, and nothing is that is not stored here', async () => {
        const text = 'a block of the tests';
        const { cid } = await owner.call.store('plain', text);
        await far.ipfs('pin', 'add', cid);
        await near.ipfs('pin', 'rm', cid);
        await near.ipfs('repo', 'gc');
        expect(await (await fetch(`${service.url}/ipfs/${cid}?format=raw`)).text()).toBe(text);
        const foreign = (await far.ipfs('add', '-Q', '--cid-version=1', import.meta.filename)).trim();
        expect(await problemOf(fetch(`${service.url}/ipfs/${foreign}?format=raw`))).toBe('404 not_found');
      });

      test('is searched for within a time limit', async () => {
        const backend = kubo({
          id: 'near',
          url: near.url,
          headers: { Authorization: `Bearer ${near.token}` },
          pinName: 'sealpin:t',
          fetch,
          timeouts: { searchMs: 200 },
        });
        const nobodys = cidOf('raw', await sha256(randomBytes(9))).text;
        const [source] = withNetwork([backend]);
        await expect(present(source).block(nobodys, AbortSignal.timeout(20_000))).rejects.toMatchObject({
          code: 'pinning_lost',
          message: expect.stringContaining('deadline'),
        });
      });
    });

    test('a stopped Kubo is 503, and worth another attempt', async () => {
      const file = await owner.call.store('plain', randomBytes(100));
      await near.stop();
      expect(
        await problemOf(
          owner.call.ask('storePlain', {}, { headers: { 'Content-Type': 'a/b' }, body: randomBytes(100) }),
        ),
      ).toBe('503 pinning_unavailable');
      expect(
        await problemOf(
          owner.call.ask('getFile', { fileId: file.fileId }, { headers: { Accept: 'application/octet-stream' } }),
        ),
      ).toBe('503 pinning_unavailable');
    });
  });
}
