/** A backup of an account whose key pair is replaced between two of its pages. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { connect } from '../../client/index.ts';
import { BackupPage } from '../../shared/api.ts';
import * as v from 'valibot';
import { inCi } from '../../testkit/long-run.ts';
import { adminToken, startService, type Service } from '../../testkit/service.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { operatorApi } from '../operator-api.ts';
import { backup } from '../service-backup.ts';

let service: Service;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.close());

inCi('is begun again, so that all of its pages are of one pair', async () => {
  const { account, apiKey } = await service.account();
  const connection = connect({ service: service.url, apiKey });
  // Its events are more than a page.
  for (let round = 0; round < 6; round += 1) {
    const stored = await Promise.all(Array.from({ length: 10 }, () => connection.put('x', { name: 'x' })));
    await Promise.all(stored.slice(1).map(({ fileId }) => connection.delete(fileId)));
  }
  const api = operatorApi(service.url, adminToken);
  const pages: string[] = [];
  const watched: typeof api = {
    ...api,
    async get(path, shape) {
      if (path.includes('/backup?')) pages.push(path.includes('cursor') ? 'next' : 'first');
      if (pages.length === 2 && pages[1] === 'next') await connection.rotateAccount();
      return await api.get(path, shape);
    },
  };
  const dir = await temporaryDirectory();
  const context = { print: () => undefined } as unknown as Parameters<typeof backup>[3];
  expect(await backup(watched, service.url, join(dir, 'copy'), context)).toBe(0);
  expect(pages.slice(0, 4)).toEqual(['first', 'next', 'first', 'next']);
  const text = await readFile(join(dir, 'copy', `${account.id}.ndjson`), 'utf8');
  const kept = text
    .trim()
    .split('\n')
    .map((line) => v.parse(BackupPage, JSON.parse(line)));
  expect(kept.length).toBe(pages.length - 2);
  expect(new Set(kept.map(({ pair }) => pair)).size).toBe(1);
  expect(kept[0]?.pair).toBe(kept[0]?.account?.publicKey);
});
