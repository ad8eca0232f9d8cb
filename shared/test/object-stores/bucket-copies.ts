/**
 * Copies of buckets, made from docs/object-stores.md alone: right ones, and ones that a reader must
 * refuse. They are kept in `vectors/object-stores/copies.json`, which
 * `node shared/test/object-stores/bucket-copies.ts` prints.
 */
import { createHash } from 'node:crypto';
import { argv, stdout } from 'node:process';
import { fileURLToPath } from 'node:url';
import { encode } from '@ipld/dag-pb';
import { CID } from 'multiformats/cid';
import { bytesOfCid, cidOf, encodeNode, leafBytes, type Cid, type Link } from '../../ipfs/index.ts';

/** Bytes in base64, or so many bytes of a text that is repeated. */
export type Content = string | { readonly repeat: string; readonly bytes: number };

export type BucketCopies = {
  /** By their keys, which begin with the prefix of a file. */
  readonly objects: Record<string, Content>;
  readonly files: { name: string; prefix: string; cid: string; bytes: number; sha256: string }[];
  /**
   * Changes of these objects, null for one that is missing, after which the index or the data of a
   * file are refused.
   */
  readonly refused: {
    name: string;
    prefix: string;
    cid: string;
    of: 'index' | 'data';
    objects: Record<string, Content | null>;
  }[];
};

/** The bytes of an object of the vectors. */
export function bytesOf(content: Content): Buffer {
  return typeof content === 'string' ? Buffer.from(content, 'base64') : Buffer.alloc(content.bytes, content.repeat);
}

const prefix = 'sealpin-6f1d0c9ab2e84f7385a1c0d9e3b74d25/';
const text = (words: string): string => Buffer.from(words).toString('base64');
const sha256 = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest();
const u32 = (number: number): Buffer => Buffer.from(number.toString(16).padStart(8, '0'), 'hex');
const u64 = (number: number): Buffer => Buffer.from(number.toString(16).padStart(16, '0'), 'hex');
const nameOf = (n: number): string => String(n).padStart(8, '0');
const leafOf = (bytes: Uint8Array): Cid => cidOf('raw', sha256(bytes));

type Objects = readonly (readonly [n: number, bytes: number])[];
type Head = { kind: number; id: string; bytes: number; objects: Objects };

function headOf({ kind, id, bytes, objects }: Head): Buffer[] {
  const counted = objects.flatMap(([n, length]) => [u32(n), u32(length)]);
  const start = [Buffer.from('sealpin'), Buffer.of(kind), Buffer.from(id, 'hex'), u64(bytes)];
  return [...start, u32(objects.length), ...counted];
}

/** An index of kind 1. */
const indexOfLeaves = (head: Omit<Head, 'kind'>, leaves: readonly Uint8Array[]): string =>
  Buffer.concat([...headOf({ kind: 1, ...head }), ...leaves.map(sha256)]).toString('base64');

/** An index of kind 2. */
function indexOfBlocks(head: Omit<Head, 'kind'>, leaves: readonly Uint8Array[], nodes: readonly Uint8Array[]): string {
  const named = leaves.flatMap((leaf) => [sha256(leaf), u32(leaf.length)]);
  const whole = nodes.flatMap((node) => [u32(node.length), node]);
  const parts = [...headOf({ kind: 2, ...head }), u32(leaves.length), ...named, u32(nodes.length), ...whole];
  return Buffer.concat(parts).toString('base64');
}

/** Leaves of 1 MiB, and the CID of the file that they make: at most 1,024 of them. */
function treeOf(bytes: Buffer): { leaves: Buffer[]; cid: Cid } {
  const count = Math.max(1, Math.ceil(bytes.length / leafBytes));
  const leaves = Array.from({ length: count }, (_, at) => bytes.subarray(at * leafBytes, (at + 1) * leafBytes));
  const [first = bytes] = leaves;
  return { leaves, cid: count === 1 ? leafOf(first) : nodeOver(leaves.map(linkTo)).cid };
}

const linkTo = (leaf: Uint8Array): Link => ({ cid: leafOf(leaf), fileBytes: leaf.length, dagBytes: leaf.length });

function nodeOver(links: readonly Link[]): Link & { block: Uint8Array } {
  const block = encodeNode(links);
  const sum = (of: 'fileBytes' | 'dagBytes'): number => links.reduce((total, link) => total + link[of], 0);
  const cid = cidOf('dag-pb', sha256(block));
  return { cid, fileBytes: sum('fileBytes'), dagBytes: sum('dagBytes') + block.length, block };
}

/** Makes the vectors. */
export function makeCopies(): BucketCopies {
  const copies: BucketCopies = { objects: {}, files: [], refused: [] };
  const { objects, files } = copies;
  let made = 0;
  /** Adds a file. `index` gets its `<id>`, and the content of each object is by its number. */
  function add(
    name: string,
    o: { cid: Cid; whole: Buffer; data: Record<number, Content>; index: (id: string) => string; prefix?: string },
  ): { cid: string; id: string; key: string; data: string } {
    made += 1;
    const id = sha256(Buffer.from(`file ${made}`))
      .toString('hex')
      .slice(0, 32);
    const below = o.prefix ?? prefix;
    const [key, data] = [`${below}cid/${o.cid.text}`, `${below}data/${id}/`];
    objects[key] = o.index(id);
    for (const [n, content] of Object.entries(o.data)) objects[`${data}${nameOf(Number(n))}`] = content;
    const sha = sha256(o.whole).toString('hex');
    files.push({ name, prefix: below, cid: o.cid.text, bytes: o.whole.length, sha256: sha });
    return { cid: o.cid.text, id, key, data };
  }
  const refuse = (name: string, of: 'index' | 'data', cid: string, changes: Record<string, Content | null>): void =>
    void copies.refused.push({ name, prefix, cid, of, objects: changes });

  objects[`${prefix}service`] = text('6f1d0c9ab2e84f7385a1c0d9e3b74d25');

  // Kind 1.
  const empty = Buffer.alloc(0);
  add('no bytes', {
    cid: leafOf(empty),
    whole: empty,
    data: { 0: '' },
    index: (id) => indexOfLeaves({ id, bytes: 0, objects: [[0, 0]] }, [empty]),
  });
  const hello = Buffer.from('hello');
  const small = add('one leaf', {
    cid: leafOf(hello),
    whole: hello,
    data: { 0: text('hello') },
    index: (id) => indexOfLeaves({ id, bytes: 5, objects: [[0, 5]] }, [hello]),
  });
  // 2.5 MiB of a text of 7 bytes, so that no leaf is like another, in objects that end within
  // leaves.
  const repeat = 'sealing';
  const [wholeBytes, firstBytes] = [2_621_443, 1_500_003];
  const whole = Buffer.alloc(wholeBytes, repeat);
  const tree = treeOf(whole);
  const rest = `${repeat.slice(firstBytes % 7)}${repeat.slice(0, firstBytes % 7)}`;
  const parts: Objects = [
    [0, firstBytes],
    [3, wholeBytes - firstBytes],
  ];
  const large = add(
    'three leaves in two objects, one of them longer than its number says, beside one that is not named',
    {
      cid: tree.cid,
      whole,
      data: {
        0: { repeat, bytes: firstBytes + 4 },
        1: text('broken off'),
        3: { repeat: rest, bytes: wholeBytes - firstBytes },
      },
      index: (id) => indexOfLeaves({ id, bytes: wholeBytes, objects: parts }, tree.leaves),
    },
  );
  const zeros = Buffer.alloc(3 * leafBytes);
  const zeroTree = treeOf(zeros);
  add('a leaf that repeats', {
    cid: zeroTree.cid,
    whole: zeros,
    data: { 0: { repeat: '\0', bytes: zeros.length } },
    index: (id) => indexOfLeaves({ id, bytes: zeros.length, objects: [[0, zeros.length]] }, zeroTree.leaves),
  });
  add('another prefix', {
    prefix: 'elsewhere/',
    cid: leafOf(Buffer.from('elsewhere')),
    whole: Buffer.from('elsewhere'),
    data: { 99_999_999: text('elsewhere') },
    index: (id) => indexOfLeaves({ id, bytes: 9, objects: [[99_999_999, 9]] }, [Buffer.from('elsewhere')]),
  });

  // Kind 2: leaves of other sizes.
  const [a, b, c] = ['the first', ' and the second', ', again'].map((words) => Buffer.from(words)) as [
    Buffer,
    Buffer,
    Buffer,
  ];
  const low = nodeOver([a, b].map(linkTo));
  const top = nodeOver([low, linkTo(c), low, linkTo(a)]);
  const foreign = add('leaves in another order than the file, a node and a leaf that repeat', {
    cid: top.cid,
    whole: Buffer.concat([a, b, c, a, b, a]),
    data: { 0: text(`${c.toString()}${a.toString()}`), 1: text(b.toString()) },
    index: (id) =>
      indexOfBlocks(
        {
          id,
          bytes: top.fileBytes,
          objects: [
            [0, c.length + a.length],
            [1, b.length],
          ],
        },
        [c, a, b],
        [low.block, top.block],
      ),
  });
  const twice = nodeOver([b, c, b].map(linkTo));
  add('a leaf that repeats, as often as the file has it', {
    cid: twice.cid,
    whole: Buffer.concat([b, c, b]),
    data: { 0: text(`${b.toString()}${c.toString()}${b.toString()}`) },
    index: (id) =>
      indexOfBlocks({ id, bytes: twice.fileBytes, objects: [[0, twice.fileBytes]] }, [b, c, b], [twice.block]),
  });
  const longLeaf = Buffer.alloc(leafBytes + 77, repeat);
  add('one raw block of more than 1 MiB', {
    cid: leafOf(longLeaf),
    whole: longLeaf,
    data: { 0: { repeat, bytes: longLeaf.length } },
    index: (id) => indexOfBlocks({ id, bytes: longLeaf.length, objects: [[0, longLeaf.length]] }, [longLeaf], []),
  });

  const deep = [nodeOver([linkTo(a)])];
  for (let below = deep[0]; below !== undefined && deep.length < 40; deep.push(below))
    below = nodeOver([below, below].map((link) => ({ ...link, dagBytes: 0 })));
  const deepest = deep.slice(0, 8);
  for (const root of deepest.slice(-1))
    add('8 levels of nodes, the most that are read', {
      cid: root.cid,
      whole: Buffer.alloc(root.fileBytes, a),
      data: { 0: text(a.toString()) },
      index: (id) =>
        indexOfBlocks(
          { id, bytes: root.fileBytes, objects: [[0, a.length]] },
          [a],
          deepest.map(({ block }) => block),
        ),
    });

  // What a reader refuses: first indexes, then data.
  const index = bytesOf(objects[large.key] ?? '');
  const changed = (at: number, ...bytes: number[]): string => {
    const copy = Buffer.from(index);
    copy.set(bytes, at);
    return copy.toString('base64');
  };
  const largeIndex = (name: string, content: string): void =>
    refuse(name, 'index', large.cid, { [large.key]: content });
  largeIndex('an index of no bytes', '');
  largeIndex('another word', changed(0, 0x53));
  largeIndex('kind 0', changed(7, 0));
  largeIndex('kind 3', changed(7, 3));
  largeIndex('kind 2 of an index of kind 1', changed(7, 2));
  largeIndex('an index that is cut off', index.subarray(0, -1).toString('base64'));
  largeIndex('a byte behind the end', Buffer.concat([index, Buffer.of(0)]).toString('base64'));
  largeIndex('a file of more bytes', changed(31, (index[31] ?? 0) + 1));
  largeIndex('a file of 2^63 bytes', changed(24, 0x80));
  largeIndex('4,294,967,295 objects', changed(32, 255, 255, 255, 255));
  largeIndex('an object of more bytes', changed(43, (index[43] ?? 0) + 1));
  largeIndex('another leaf', changed(60, (index[60] ?? 0) ^ 1));
  largeIndex('the index of another file', bytesOf(objects[small.key] ?? '').toString('base64'));
  largeIndex('no objects', indexOfLeaves({ id: large.id, bytes: wholeBytes, objects: [] }, tree.leaves));

  const blocks = (o: { bytes?: number; leaves?: Buffer[]; nodes?: Uint8Array[]; objects?: Objects }): string =>
    indexOfBlocks(
      {
        id: foreign.id,
        bytes: o.bytes ?? top.fileBytes,
        objects: o.objects ?? [
          [0, c.length + a.length],
          [1, b.length],
        ],
      },
      o.leaves ?? [c, a, b],
      o.nodes ?? [low.block, top.block],
    );
  const foreignIndex = (name: string, content: string): void =>
    refuse(name, 'index', foreign.cid, { [foreign.key]: content });
  foreignIndex('no root', blocks({ nodes: [low.block] }));
  foreignIndex('a node that is missing', blocks({ nodes: [top.block] }));
  foreignIndex(
    'a leaf that is missing',
    blocks({
      leaves: [c, b],
      objects: [
        [0, c.length],
        [1, b.length],
      ],
    }),
  );
  foreignIndex('another number of bytes than the root says', blocks({ bytes: top.fileBytes + 1 }));
  foreignIndex('objects of another number of bytes than the leaves', blocks({ objects: [[0, 1]] }));

  /** A file whose index is refused though all of its digests are right. */
  const never = (name: string, root: Link & { block: Uint8Array }, nodes: Uint8Array[], leaves: Buffer[]): void => {
    const id = sha256(Buffer.from(name)).toString('hex').slice(0, 32);
    const bytes = leaves.reduce((sum, leaf) => sum + leaf.length, 0);
    refuse(name, 'index', root.cid.text, {
      [`${prefix}cid/${root.cid.text}`]: indexOfBlocks(
        { id, bytes: root.fileBytes, objects: [[0, bytes]] },
        leaves,
        nodes,
      ),
      [`${prefix}data/${id}/00000000`]: Buffer.concat(leaves).toString('base64'),
    });
  };
  const lying = nodeOver([linkTo(a), { ...linkTo(b), fileBytes: b.length + 1 }]);
  never('a node that says another size of a leaf', lying, [lying.block], [a, b]);
  const lyingAbove = nodeOver([{ ...low, fileBytes: 3 }]);
  never('a node that says another size of a node', lyingAbove, [lyingAbove.block, low.block], [a, b]);
  for (const levels of [9, 40]) {
    const nodes = deep.slice(0, levels);
    for (const root of nodes.slice(-1))
      never(
        `${levels} levels of nodes`,
        root,
        nodes.map(({ block }) => block),
        [a],
      );
  }
  const inline = encode({
    Data: Buffer.concat([
      Buffer.from('08021205', 'hex'),
      Buffer.from('hello'),
      Buffer.of(0x18, a.length + 5, 0x20, a.length),
    ]),
    Links: [{ Name: '', Tsize: a.length, Hash: CID.decode(bytesOfCid(leafOf(a))) }],
  });
  const own = { cid: cidOf('dag-pb', sha256(inline)), fileBytes: a.length, dagBytes: 0, block: inline };
  never('a node with bytes of its own', own, [inline], [a]);

  refuse('an object that is missing', 'data', large.cid, { [`${large.data}00000003`]: null });
  refuse('an object that is cut off', 'data', large.cid, {
    [`${large.data}00000003`]: { repeat: rest, bytes: wholeBytes - firstBytes - 1 },
  });
  refuse('other bytes', 'data', large.cid, { [`${large.data}00000003`]: { repeat, bytes: wholeBytes - firstBytes } });
  refuse('other bytes of a leaf', 'data', foreign.cid, {
    [`${foreign.data}00000001`]: text(b.toString().toUpperCase()),
  });
  refuse('no data at all', 'data', small.cid, { [`${small.data}00000000`]: null });
  return copies;
}

if (argv[1] === fileURLToPath(import.meta.url)) stdout.write(`${JSON.stringify(makeCopies(), undefined, 2)}\n`);
