import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openCatalog } from '../../local/node/catalog.ts';
import { directory } from './node-harness.ts';

const leaf = (cid: string) => ({ cid, offset: 0, bytes: 1, node: null, links: [] });

test('staged rows are not visible, and are removed when the file is abandoned', async () => {
  const path = join(await directory(), 'node.db');
  const catalog = openCatalog(path);
  catalog.stage('a', [leaf('x')]);
  catalog.stage('a', [leaf('y')]);
  expect(catalog.find('x')).toBeUndefined();
  catalog.unstage('a');
  expect(catalog.files()).toEqual(new Set());
  catalog.stage('b', [leaf('x')]);
  catalog.close();
  const again = openCatalog(path);
  expect(again.files()).toEqual(new Set());
  again.close();
});

test('a file with rows ahead is found once it is published, and replaces an older copy of the same bytes', async () => {
  const catalog = openCatalog(join(await directory(), 'node.db'));
  const published = (file: string) => {
    catalog.stage(file, [leaf('x')]);
    return catalog.publish([{ file, cid: 'r', blocks: [leaf('y')], pin: undefined, keepUntil: 5 }]);
  };
  expect(published('a')).toEqual([]);
  expect(['x', 'y'].map((cid) => catalog.find(cid)?.file)).toEqual(['a', 'a']);
  expect(published('b')).toEqual(['a']);
  expect(catalog.files()).toEqual(new Set(['b']));
  catalog.unstage('b');
  expect(catalog.files()).toEqual(new Set(['b']));
  expect(catalog.collect(5)).toEqual({ cids: ['x', 'y'], files: ['b'] });
  expect(catalog.removed()).toEqual(new Set(['a', 'b']));
  catalog.forget(['a']);
  expect(catalog.removed()).toEqual(new Set(['b']));
  catalog.close();
});
