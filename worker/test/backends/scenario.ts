/** One call of an adapter, described as data, so that the same call runs in Node and in workerd. */
import { isSealpinError } from '../../../shared/errors.ts';
import { cidBuilder, cidOf, parseCid, type Cid } from '../../../shared/ipfs/index.ts';
import { cluster, type ClusterOptions } from '../../backends/cluster/cluster.ts';
import { kubo, type Timeouts } from '../../backends/kubo/kubo.ts';
import type { PinningService } from '../../backends/contract.ts';
import { flip, present } from '../../../testkit/present.ts';

export type Scenario = {
  /** Address of Kubo's RPC. */
  url: string;
  token?: string;
  /** A cluster instead, whose REST APIs take the token. */
  cluster?: Pick<ClusterOptions, 'peers' | 'replication'>;
  /** The id of the service that makes the call; `tested` by default. */
  owner?: string;
  timeouts?: Partial<Timeouts>;
  /** Aborts the caller's signal after this time. */
  abortAfterMs?: number;
} & (
  | { method: 'stat' | 'unpin' | 'unpinBeside' | 'block'; cid: string }
  | { method: 'pin'; cid: string; bytes: number; beside?: boolean }
  | { method: 'read'; cid: string; offset: number; length: number }
  | { method: 'ping' }
  | ({ method: 'import' } & Import)
  /** Imports, then pins. */
  | ({ method: 'store'; beside?: boolean } & Import)
);

type Import = {
  /** Length of the file; a file of no bytes is one empty block. */
  bytes: number;
  /** Imports raw blocks of this size instead of the leaves and nodes of a file. */
  blockBytes?: number;
  /** The time between two blocks. */
  gapMs?: number;
  /**
   * `none`: no block at all; `first`: without its first block; `mangled`: a byte of the first block
   * differs; `abort`, `leave`: the import or the caller's signal is aborted after the last block;
   * `stall`: nothing happens after the last block.
   */
  fault?: 'none' | 'first' | 'mangled' | 'abort' | 'leave' | 'stall';
};

/** `value`: bytes as latin1 text. */
export type Outcome = {
  value?: unknown;
  error?: {
    code: string | undefined;
    message: string;
    hint: string | undefined;
    retryAfterSeconds: number | undefined;
  };
};

/** Bytes that depend on their number only. */
export function bytesOf(count: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(count);
  for (let i = 0; i < count; i += 1) bytes[i] = i * 31 + (i >> 8) + (i >> 16) * 7;
  return bytes;
}

function text(bytes: Uint8Array): string {
  let out = '';
  for (let at = 0; at < bytes.length; at += 8192) out += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return out;
}

type Block = { cid: Cid; bytes: Uint8Array };

/** The blocks of a file, leaves before nodes, the root last. */
async function blocksOf(file: Uint8Array): Promise<Block[]> {
  const blocks: Block[] = [];
  let at = 0;
  const builder = cidBuilder({
    onLeaf: (cid, length) => void blocks.push({ cid: parseCid(cid), bytes: file.slice(at, (at += length)) }),
    onNode: (cid, block) => void blocks.push({ cid: parseCid(cid), bytes: block }),
  });
  await builder.write(file);
  await builder.finish();
  return blocks;
}

async function rawBlocksOf(file: Uint8Array<ArrayBuffer>, blockBytes: number): Promise<Block[]> {
  const starts = Array.from({ length: Math.ceil(file.length / blockBytes) }, (_, index) => index * blockBytes);
  return await Promise.all(
    starts.map(async (start) => {
      const bytes = file.slice(start, start + blockBytes);
      return { cid: cidOf('raw', new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))), bytes };
    }),
  );
}

/** Imports blocks, with a fault. @returns the CID of the last one */
async function importBlocks(service: PinningService, o: Import, abort: AbortController): Promise<string | undefined> {
  const { fault, gapMs } = o;
  const file = bytesOf(o.bytes);
  let blocks = o.blockBytes === undefined ? await blocksOf(file) : await rawBlocksOf(file, o.blockBytes);
  const cid = blocks.at(-1)?.cid.text;
  if (fault === 'none') blocks = [];
  if (fault === 'first') blocks.shift();
  const open = service.importBlocks(abort.signal);
  for (const [index, block] of blocks.entries()) {
    if (fault === 'mangled' && index === 0) flip(block.bytes, 0);
    await open.write(block.cid, block.bytes);
    if (gapMs !== undefined) await new Promise((resolve) => setTimeout(resolve, gapMs));
  }
  if (fault === 'abort') open.abort(new Error('it was aborted'));
  if (fault === 'leave') abort.abort(new Error('the caller left'));
  if (fault === 'stall') await new Promise((resolve) => abort.signal.addEventListener('abort', resolve));
  await open.finish();
  return cid;
}

function adapterOf(scenario: Scenario): PinningService {
  const { url, token } = scenario;
  const common = {
    id: 'tested',
    pinName: `sealpin:${scenario.owner ?? 'tested'}`,
    fetch,
    ...(scenario.timeouts && { timeouts: scenario.timeouts }),
  };
  if (scenario.cluster) {
    const headers = { authorization: `Basic ${btoa(present(token))}` };
    return cluster({ ...common, ...scenario.cluster, headers, ipfsHeaders: {} });
  }
  return kubo({ ...common, url, headers: token === undefined ? {} : { authorization: `Bearer ${token}` } });
}

export async function play(scenario: Scenario): Promise<Outcome> {
  const service = adapterOf(scenario);
  const abort = new AbortController();
  if (scenario.abortAfterMs !== undefined)
    setTimeout(() => abort.abort(new Error('the caller left')), scenario.abortAfterMs);
  const { signal } = abort;

  const pin = (cid: string, o: { bytes: number; beside?: boolean }): Promise<void> =>
    service.pin(cid, { bytes: o.bytes, beside: o.beside === true, signal });

  async function call(): Promise<unknown> {
    if (scenario.method === 'import') return await importBlocks(service, scenario, abort);
    if (scenario.method === 'store') {
      const cid = await importBlocks(service, scenario, abort);
      await pin(present(cid), scenario);
      return cid;
    }
    if (scenario.method === 'pin') return await pin(scenario.cid, scenario);
    if (scenario.method === 'ping') return await service.ping(signal);
    if (scenario.method === 'read') {
      const stream = await service.read(scenario.cid, scenario.offset, scenario.length, signal);
      return text(new Uint8Array(await new Response(stream).arrayBuffer()));
    }
    const value = await service[scenario.method](scenario.cid, signal);
    return value instanceof Uint8Array ? text(value) : value;
  }

  try {
    return { value: await call() };
  } catch (cause) {
    const code = isSealpinError(cause) ? cause.code : undefined;
    const { hint, retryAfterSeconds } = isSealpinError(cause) ? cause : {};
    return {
      error: { code, message: cause instanceof Error ? cause.message : String(cause), hint, retryAfterSeconds },
    };
  }
}
