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

test.each([
  { part: 'begins like it', leaves: ['first', 'other'], stays: true },
  { part: 'ends like it', leaves: ['other', 'last'], stays: true },
  { part: 'begins and ends like it', leaves: ['first', 'other', 'last'], stays: true },
  { part: 'has nodes of it only', leaves: [], stays: true },
  { part: 'is in it whole', leaves: ['middle', 'last'], stays: false },
])('the pin of a file leaves the part of another upload that $part: $stays', async ({ leaves, stays }) => {
  const catalog = openCatalog(join(await directory(), 'node.db'));
  const add = (file: string, cids: readonly string[], inner = `node of ${file}`) => {
    const nodes = [inner, `root of ${file}`].map((cid, index) => {
      return { ...leaf(cid), node: new Uint8Array(), links: index === 0 ? cids : [inner] };
    });
    const blocks = [...cids.map(leaf), ...nodes];
    catalog.publish([{ file, cid: `root of ${file}`, blocks, pin: undefined, keepUntil: 3_600_000 }]);
  };
  add('whole', ['first', 'middle', 'last']);
  add('part', leaves, leaves.length === 0 ? 'node of whole' : undefined);
  add('another', ['another']);
  catalog.pin('root of another', '');
  catalog.pin('root of whole', '');
  expect(catalog.unpin(['root of another'], 1)).toMatchObject({ files: stays ? ['another'] : ['part', 'another'] });
  catalog.close();
});

test('what is sent again stays while its upload runs, and goes with the pin that holds it in the end', async () => {
  const catalog = openCatalog(join(await directory(), 'node.db'));
  const node = (cid: string, links: string[]) => ({ ...leaf(cid), node: new Uint8Array(), links });
  const send = (round: number) => {
    const from = { pin: undefined, keepUntil: 3_600_000 };
    // The node above a part is not one of the file.
    catalog.publish([{ ...from, file: `part ${round}`, cid: 'p', blocks: [leaf('x'), node('p', ['x'])] }]);
    catalog.publish([{ ...from, file: `root ${round}`, cid: 'r', blocks: [leaf('y'), node('r', ['x', 'y'])] }]);
  };
  send(1);
  catalog.pin('r', '');
  send(2);
  // The first one is deleted before the second one is known to need the pin.
  expect(catalog.unpin(['r'], 1)).toEqual({ cids: [], files: [] });
  expect(catalog.missing('r')).toBeUndefined();
  catalog.pin('r', '');
  send(3);
  catalog.joinPin('r');
  expect(catalog.unpin(['r'], 2)).toMatchObject({ files: ['part 3', 'root 3'] });
  expect(catalog.files()).toEqual(new Set());
  catalog.close();
});
