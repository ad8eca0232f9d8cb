/** A node in a directory of its own, and plain requests to it. */
import { hash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as dagPb from '@ipld/dag-pb';
import { CID } from 'multiformats/cid';
import { onTestFinished } from 'vitest';
import { carHeader, carSection, cidOf, encodeNode, leafBytes, type Cid } from '../../../shared/ipfs/index.ts';
import { startNode, type NodeOptions, type RunningNode } from '../../local/node/server.ts';

export const token = 'token-of-the-tests';

/** Response of a command; `Keys` of pin/ls. */
type Json = { [field: string]: unknown; Keys?: Record<string, unknown> };

export type Reply = {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  json(): Json;
  records(): Json[];
};

/** A temporary directory that is gone after the test. */
export async function directory(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-node-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** A node that ends with the test. */
export async function node(o: Partial<NodeOptions> = {}): Promise<RunningNode & { dir: string }> {
  const dir = o.dir ?? (await directory());
  const running = await startNode({ token, ...o, dir });
  let closed: Promise<void> | undefined;
  const close = () => (closed ??= running.close());
  onTestFinished(close);
  return { ...running, dir, close };
}

/** One request, with headers as they are given. */
export function ask(
  url: string,
  path: string,
  o: { method?: string; headers?: Record<string, string>; body?: Uint8Array } = {},
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, ...o.headers };
    const sent = request(`${url}/api/v0/${path}`, { method: o.method ?? 'POST', headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString('latin1');
        const records = () =>
          text
            .trim()
            .split('\n')
            .map((line) => JSON.parse(line) as Json);
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          json: () => JSON.parse(text) as Json,
          records,
        });
      });
    });
    sent.on('error', reject);
    sent.end(o.body);
  });
}

export function multipart(...files: { bytes: Uint8Array; name?: string; type?: string }[]): {
  headers: { 'content-type': string };
  body: Buffer;
} {
  const parts = files.flatMap(({ bytes, name = '', type = 'application/octet-stream' }) => [
    Buffer.from(
      `--xyz\r\nContent-Disposition: form-data; name="file"; filename="${name}"\r\nContent-Type: ${type}\r\n\r\n`,
    ),
    bytes,
    Buffer.from('\r\n'),
  ]);
  return {
    headers: { 'content-type': 'multipart/form-data; boundary=xyz' },
    body: Buffer.concat([...parts, Buffer.from('--xyz--\r\n')]),
  };
}

export type Block = { cid: Cid; bytes: Uint8Array };

/** A block and its CID. */
export function block(codec: Cid['codec'], bytes: Uint8Array): Block {
  return { cid: cidOf(codec, hash('sha256', bytes, 'buffer')), bytes };
}

/**
 * A node with one link that is no file: what a pinning service keeps above a root that somebody
 * else has pinned.
 */
export function anchorAbove(root: Block): Block {
  return block(
    'dag-pb',
    dagPb.encode(dagPb.createNode(utf8('sealpin:x'), [{ Name: '', Hash: CID.parse(root.cid.text) }])),
  );
}

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

/** A node of a file above leaves, or above such nodes. */
export function nodeOver(below: readonly { block: Block; fileBytes: number }[]): { block: Block; fileBytes: number } {
  const links = below.map(({ block: { cid, bytes }, fileBytes }) => ({ cid, fileBytes, dagBytes: bytes.length }));
  return {
    block: block('dag-pb', encodeNode(links)),
    fileBytes: below.reduce((sum, one) => sum + one.fileBytes, 0),
  };
}

/** A leaf with these bytes. */
export const leafOf = (bytes: Uint8Array) => ({ block: block('raw', bytes), fileBytes: bytes.length });

/** A CAR with the empty identity CID as its root. */
export function carWith(...blocks: readonly Block[]): Buffer {
  return Buffer.concat([carHeader(), ...blocks.flatMap(({ cid, bytes }) => [carSection(cid, bytes.length), bytes])]);
}

/** Imports blocks as one CAR. */
export async function importBlocks(url: string, ...blocks: readonly Block[]): Promise<void> {
  const reply = await ask(url, 'dag/import?pin-roots=false', multipart({ bytes: carWith(...blocks) }));
  if (reply.status !== 200) throw new Error(reply.text);
}

/**
 * A file of five leaves in two parts, each with a node of its own, which is not a part of the file,
 * and the root above the leaves.
 */
export function fileInParts(bytes: Uint8Array = randomBytes(4 * leafBytes + 100)) {
  const leaves = Array.from({ length: 5 }, (_, i) => leafOf(bytes.subarray(i * leafBytes, (i + 1) * leafBytes)));
  const parts = [leaves.slice(0, 3), leaves.slice(3)].map((below) => ({ leaves: below, node: nodeOver(below).block }));
  return { bytes: Buffer.from(bytes), leaves, parts, root: nodeOver(leaves).block };
}

/** Pins a block and what is below it. */
export async function pin(url: string, { cid }: Block): Promise<void> {
  const reply = await ask(url, `pin/add?arg=${cid.text}&timeout=20s`);
  if (reply.status !== 200) throw new Error(reply.text);
}

/**
 * Stores a file as the Worker does: part by part, each pinned, then the root, then without the pins
 * of the parts.
 */
export async function importFile(url: string, file = fileInParts()): Promise<ReturnType<typeof fileInParts>> {
  for (const part of file.parts) {
    await importBlocks(url, ...part.leaves.map((leaf) => leaf.block), part.node);
    await pin(url, part.node);
  }
  await importBlocks(url, file.root);
  await pin(url, file.root);
  for (const part of file.parts) await ask(url, `pin/rm?arg=${part.node.cid.text}`);
  return file;
}

/** Adds one file and returns its CID. */
export async function add(url: string, bytes: Uint8Array, query = ''): Promise<string> {
  const reply = await ask(url, `add${query}`, multipart({ bytes }));
  if (reply.status !== 200) throw new Error(reply.text);
  return String(reply.json()['Hash']);
}
