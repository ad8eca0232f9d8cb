/** The list of files: filters, order, cursors. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { FileList, StoredFile } from '../../../shared/api.ts';
import { sharedService, type Service } from '../../../testkit/service.ts';
import { client, jsonOf, problemOf } from '../../../testkit/api-client.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import { first, itemOf, present } from '../../../testkit/present.ts';

let service: Service;
let owner: Owner;
/** Files that are stored, the oldest first. */
let stored: StoredFile[];
let writerId: string;

beforeAll(async () => {
  service = await sharedService();
  owner = await newOwner(service);
  const made = await owner.call.createKey({ label: 'w', scopes: ['write'] });
  writerId = made.key.id;
  const writer = client(service.url, made.apiKey);
  stored = [
    await owner.call.store('plain', 'a'.repeat(10), { filename: 'report 1.txt', type: 'text/plain; charset=utf-8' }),
    await owner.call.store('encrypted', 'b'.repeat(100), { filename: 'report 2.txt', type: 'text/plain' }),
    await owner.call.store('plain', 'c'.repeat(1000), { filename: 'Report 3.png', type: 'Image/PNG' }),
    await writer.store('encrypted', 'd'.repeat(20_000), { filename: 'secret', type: 'text/plain' }),
    await writer.store('plain', 'e', { filename: '100%_é.txt', type: 'text/plain' }),
  ];
});

const ask = (query: Record<string, string>, by: Owner = owner): Promise<Response> =>
  by.call(`/v1/storage?${new URLSearchParams(query).toString()}`);
const list = (query: Record<string, string>, by?: Owner): Promise<FileList> => jsonOf<FileList>(ask(query, by));

/** The places in `stored` of the files that a list has. */
async function places(query: Record<string, string>): Promise<number[]> {
  const { files } = await list(query);
  return files.map(({ fileId }) => stored.findIndex((file) => file.fileId === fileId));
}

describe('the list of files', () => {
  it.each<[Record<string, string>, number[]]>([
    [{}, [4, 3, 2, 1, 0]],
    [{ order: 'desc' }, [4, 3, 2, 1, 0]],
    [{ order: 'asc' }, [0, 1, 2, 3, 4]],
    [{ mode: 'plain' }, [4, 2, 0]],
    [{ mode: 'encrypted', order: 'asc' }, [1, 3]],
    [{ minSize: '100' }, [3, 2, 1]],
    [{ minSize: '101' }, [3, 2]],
    [{ maxSize: '100' }, [4, 1, 0]],
    [{ maxSize: '99' }, [4, 0]],
    [{ minSize: '10', maxSize: '1000', mode: 'encrypted' }, [1]],
    [{ mode: 'plain', contentType: 'text/plain' }, [4, 0]],
    [{ mode: 'plain', contentType: 'image/png' }, [2]],
    [{ mode: 'plain', name: 'report' }, [0]],
    [{ mode: 'plain', name: '100%_' }, [4]],
    [{ mode: 'plain', name: '100%_é' }, [4]],
    [{ mode: 'plain', name: '%' }, []],
    [{ createdAfter: '2020-01-01T00:00:00Z' }, [4, 3, 2, 1, 0]],
    [{ createdBefore: '2020-01-01T00:00:00Z' }, []],
    [{ createdAfter: '2200-01-01T00:00:00Z' }, []],
  ])('has with %j the files %j', async (query, expected) => {
    expect(await places(query)).toEqual(expected);
  });

  it('has the files of one key, of one CID, and of the time between two', async () => {
    expect(await places({ createdBy: writerId })).toEqual([4, 3]);
    expect(await places({ createdBy: writerId, mode: 'plain' })).toEqual([4]);
    expect(await places({ cid: itemOf(stored, 2).cid, mode: 'plain' })).toEqual([2]);
    expect(await places({ cid: itemOf(stored, 2).cid, mode: 'encrypted' })).toEqual([]);
    const [, second] = stored;
    const after = stored.filter(({ createdAt }) => createdAt > present(second).createdAt).length;
    const before = stored.filter(({ createdAt }) => createdAt < present(second).createdAt).length;
    expect(await places({ createdAfter: present(second).createdAt })).toHaveLength(after);
    expect(await places({ createdBefore: present(second).createdAt })).toHaveLength(before);
  });

  it('refuses what it cannot compare', async () => {
    for (const query of [
      { name: 'report' },
      { name: 'report', mode: 'encrypted' },
      { contentType: 'text/plain' },
      { mode: 'plain', contentType: 'text' },
      { mode: 'sealed' },
      { minSize: '-1' },
      { maxSize: '1e3' },
      { createdAfter: 'yesterday' },
      { createdBy: 'me' },
      { order: 'random' },
      { filename: 'x' },
    ])
      expect(await problemOf(ask(query)), JSON.stringify(query)).toBe('400 invalid_request');
  });
});

describe('a cursor', () => {
  it.each<Record<string, string>>([{}, { order: 'asc' }, { mode: 'plain' }, { minSize: '2', order: 'asc' }])(
    'continues the list %j, as its Link does, while files come and go',
    async (query) => {
      const own = await newOwner(service);
      const before: StoredFile[] = [];
      for (const mode of ['plain', 'encrypted', 'plain', 'plain'] as const)
        before.push(await own.call.store(mode, `file ${before.length}`));
      const all = (await list(query, own)).files;
      const seen: StoredFile[] = [];
      let path: string | undefined = `/v1/storage?${new URLSearchParams({ ...query, limit: '1' }).toString()}`;
      while (path !== undefined) {
        const response: Response = await own.call(path);
        const page = await jsonOf<FileList>(response);
        expect(page.files.length).toBeLessThanOrEqual(1);
        seen.push(...page.files);
        path = /^<(.+)>; rel="next"$/.exec(response.headers.get('Link') ?? '')?.[1];
        if (path !== undefined) expect(new URL(path, service.url).searchParams.get('cursor')).toBe(page.cursor);
        // Newest first, a new file is before the first page; the other way round, behind the last.
        if (seen.length === 1 && query['order'] !== 'asc') await own.call.store('plain', 'new');
        if (seen.length === 2) await own.call.ask('deleteFile', { fileId: first(seen).fileId });
      }
      expect(seen).toEqual(all);
    },
  );

  it('is refused with other filters', async () => {
    const { cursor: plain } = await list({ limit: '1', mode: 'plain' });
    const { cursor: all } = await list({ limit: '1' });
    expect(await problemOf(ask({ cursor: present(plain) }))).toBe('400 invalid_request');
    expect(await problemOf(ask({ cursor: present(plain), mode: 'encrypted' }))).toBe('400 invalid_request');
    expect(await problemOf(ask({ cursor: present(plain), mode: 'plain', order: 'asc' }))).toBe('400 invalid_request');
    expect(await problemOf(ask({ cursor: present(all), mode: 'plain' }))).toBe('400 invalid_request');
    expect((await ask({ cursor: present(plain), mode: 'plain', limit: '2' })).status).toBe(200);
  });

  it('comes with an empty page where a filter matches little among many files', async () => {
    const own = await newOwner(service);
    const oldest = await own.call.store('encrypted', 'the oldest');
    await own.object.fill(12_000);
    const pages: number[] = [];
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const page: FileList = await list({ mode: 'encrypted', ...(cursor === undefined ? {} : { cursor }) }, own);
      pages.push(page.files.length);
      found.push(...page.files.map(({ fileId }) => fileId));
      ({ cursor } = page);
    } while (cursor !== undefined);
    expect({ pages, found }).toEqual({ pages: [0, 0, 1], found: [oldest.fileId] });
  });
});
