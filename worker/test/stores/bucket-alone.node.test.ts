/** A bucket whose service is gone, with all that it knew: every file is found in it, and read. */
import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect } from 'vitest';
import type { StoredFile } from '../../../shared/api.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { present } from '../../../testkit/present.ts';
import { run, withProgram } from '../../../testkit/programs/programs.ts';
import { temporaryDirectory } from '../../../testkit/temporary-directory.ts';
import { bytesOf, jsonOf } from '../../../testkit/api-client.ts';
import { create, send } from '../uploads/tus-client.ts';
import { foreignCar } from './foreign-car.ts';
import { costlyKinds, describeStores, startStore, type StoreUnderTest } from './store-under-test.ts';

const mib = 1_048_576;
const script = join(import.meta.dirname, '../../../contrib/rescue.py');
const carType = { 'Content-Type': 'application/vnd.ipld.car' };
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Stores a file of each kind. @returns the digest of the bytes of each CID */
async function fill({ owner: { call } }: StoreUnderTest): Promise<Map<string, string>> {
  const stored = new Map<string, string>();
  for (const bytes of [Buffer.alloc(0), randomBytes(1), randomBytes(17 * mib + 1), Buffer.alloc(3 * mib)])
    stored.set((await call.store('plain', bytes)).cid, sha256(bytes));
  const sealed = await call.store('encrypted', randomBytes(mib));
  const inPublic = await call(`/ipfs/${sealed.cid}`, { headers: { Accept: 'application/octet-stream' } });
  stored.set(sealed.cid, sha256(await bytesOf(inPublic)));
  const inParts = randomBytes(2 * mib + 7);
  const { path } = await create(call, 'plain', inParts.length);
  const sent = await send(call, path, inParts, mib);
  stored.set(present(sent.headers.get('Sealpin-Cid')), sha256(inParts));
  // The last leaves repeat the first ones.
  const [some, others] = [randomBytes(300_000), randomBytes(433_333)];
  const foreign = Buffer.concat([some, others, some]);
  const init = { method: 'POST', headers: carType, body: await foreignCar(foreign) };
  stored.set((await jsonOf<StoredFile>(call('/v1/storage/plain', init), 201)).cid, sha256(foreign));
  return stored;
}

withProgram('cryptography-python', { probe: ['-c', 'import cryptography'], isOptional: true }, () => {
  describeStores('%s', costlyKinds, (kind) => {
    inCi('a copy of the bucket has every file, once the service and its database are gone', async () => {
      const store = await startStore(kind);
      const copy = await temporaryDirectory();
      const stored = new Map<string, string>();
      try {
        for (const [cid, digest] of await fill(store)) stored.set(cid, digest);
        for (const key of await store.keys()) {
          await mkdir(dirname(join(copy, key)), { recursive: true });
          await writeFile(join(copy, key), await store.read(key));
        }
      } finally {
        await store.close();
      }
      expect(existsSync(store.service.dir)).toBe(false);
      const rescue = (...args: string[]): string =>
        Buffer.from(run('cryptography-python', [script, 'bucket', copy, ...args])).toString();
      expect(Array.from(rescue().matchAll(/\S{59}/g), String).toSorted()).toEqual([...stored.keys()].toSorted());
      for (const [cid, digest] of stored) {
        rescue(cid, join(copy, `${cid}.out`));
        expect(sha256(await readFile(join(copy, `${cid}.out`)))).toBe(digest);
      }
    });
  });
});
