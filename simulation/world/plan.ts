/**
 * The plan of a history: what clients and the operator do, and what fails, when. All of it follows
 * from the seed, and any part can be left out.
 */
import { Random } from '../host/random.ts';
import type { Trouble } from '../platform/behaviour.ts';

/** The kinds of backends, in their order, and how many of them hold each file. */
export type Topology = { kinds: readonly ('kubo' | 'r2' | 's3')[]; replicas: number };

export type Mode = 'plain' | 'encrypted';

/** Action of a client or the operator. `of`: the step whose file, share or key it is about. */
export type Action =
  | { kind: 'store'; mode: Mode; content: number; days?: number; isRepeatable: boolean; lie?: 'cid' | 'length' }
  | {
      kind: 'upload';
      mode: Mode;
      content: number;
      pieces: number;
      days: number;
      isAbandoned: boolean;
      isConfused?: boolean;
      /** Its pieces are whole leaves. */
      isAligned?: boolean;
      /** Event while a piece is under way. */
      meanwhile?: 'breaks' | 'sent twice' | 'ended';
    }
  | { kind: 'storeSigned'; mode: Mode; content: number }
  | { kind: 'read'; of: number; isByCid?: boolean }
  | { kind: 'readSigned' | 'delete' | 'receipt' | 'verify' | 'note'; of: number }
  | { kind: 'deny'; of: number; forMs: number }
  | { kind: 'deleteAll'; of: number[] }
  | { kind: 'expire'; of: number; days: number | null }
  | { kind: 'list' | 'backup' | 'repair' | 'close' | 'rotate' }
  | { kind: 'share'; of: number; opens: number; days: number }
  | { kind: 'open'; of: number; receiver: number }
  | { kind: 'change'; of: number; opens?: number; days?: number }
  | { kind: 'revoke'; of: number }
  | { kind: 'key' | 'invite'; files: number; bytes: number; days: number }
  | { kind: 'revokeKey'; of: number }
  | { kind: 'quota'; bytes: number | null }
  | { kind: 'migrate' | 'cancel'; from: string; to: string };

/** A fault. */
export type SimulatedFault =
  | { kind: 'trouble'; backend: string; trouble: Trouble; forMs: number }
  | { kind: 'lose' | 'damage'; backend: string; nth: number }
  | { kind: 'collect'; backend: string }
  | { kind: 'calls fail'; share: number; forMs: number }
  | { kind: 'kv fails'; forMs: number }
  | { kind: 'power cut' | 'isolate ends' | 'front ends' | 'lines break'; afterTasks: number }
  | { kind: 'object crashes'; nth: number; afterTasks: number }
  | { kind: 'crash at a commit'; isKept: boolean; afterCommits: number };

/** One step. `by`: the number of the account, or of the key (a step's ID) that does it. */
export type Step = { id: number; atMs: number } & (
  | { does: Action; by: number; withKey?: number }
  | { fails: SimulatedFault }
);

/** Some steps close to each other, after which everything comes to rest and is checked. */
export type Burst = { atMs: number; steps: Step[] };

/** A plan. `hasFront`: bytes of plain files go past the Worker, at the first backend. */
export type Plan = {
  seed: string;
  topology: Topology;
  hasFront?: boolean;
  quotas: (number | null)[];
  bursts: Burst[];
  endMs: number;
};

/** Contents that files have: few, so that the same bytes are stored again and again. */
export const contents = 10;
/** One of more than two leaves besides, for uploads past the Worker. */
export const ofThreeLeaves = 10;
export const accountCount = 2;

export const topologies: readonly [Topology, ...Topology[]] = [
  { kinds: ['kubo'], replicas: 1 },
  { kinds: ['kubo', 'kubo'], replicas: 2 },
  { kinds: ['kubo', 'kubo'], replicas: 1 },
  { kinds: ['kubo', 'r2'], replicas: 2 },
  { kinds: ['r2', 'kubo'], replicas: 2 },
  { kinds: ['r2'], replicas: 1 },
  { kinds: ['s3'], replicas: 1 },
  { kinds: ['s3', 'kubo'], replicas: 2 },
  { kinds: ['r2', 's3'], replicas: 2 },
];

/** The bytes of a content. */
export function bytesOfContent(content: number): Uint8Array {
  const random = new Random(`content ${content}`);
  const largeBytes = content === ofThreeLeaves ? 2_100_000 : 1_200_000;
  const bytes = new Uint8Array(
    content === 0 ? 0 : content < contents - 2 ? random.spread(1, 3_000) : largeBytes + content * 9,
  );
  const block = new Uint8Array(Math.min(bytes.length, 1_000));
  random.draw(block);
  for (let at = 0; at < bytes.length; at += block.length) bytes.set(block.subarray(0, bytes.length - at), at);
  return bytes;
}
