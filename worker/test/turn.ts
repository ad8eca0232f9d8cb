/** Commands on their way from the Worker to a backend, as a peer between them sees them. */

/**
 * Actions of a backend, whatever its kind: it takes bytes, keeps a file, tells whether it has it,
 * gives bytes, removes.
 */
export type Step = 'import' | 'keep' | 'look' | 'read' | 'remove' | 'other';

/**
 * One command on its way. `pass` sends it on, `answer` says something else, `cut` breaks the
 * connection off.
 */
export type Turn = {
  step: Step;
  /** `dag/import`, `pin/ls`, `pin/add`, `pin/rm`, `block/get`, `cat`, …; at a bucket the method. */
  command: string;
  cid: string | null;
  /** The key of an object; null at a node. */
  key: string | null;
  /** The `X-Request-Id` with which it came. */
  requestId: string | undefined;
  /**
   * Passes the command on, and resolves when the node has answered; then `deliver` gives the answer
   * to the Worker.
   */
  pass(): Promise<{ status: number; body: Buffer; deliver(body?: Buffer): void }>;
  answer(status: number, body: string | Buffer, headers?: Record<string, string>): void;
  /**
   * Sends the answer's beginning with a length, and then nothing more, or the end of the
   * connection.
   */
  begin(body: Buffer, bytes: number, then: 'hang' | 'cut'): void;
  /** Sends an answer so slowly. */
  trickle(body: Buffer, bytesPerSecond: number): Promise<void>;
  cut(): void;
  /** Says what a backend says that is too busy. */
  refuse(): void;
  /** Says what a backend says that lacks what it is asked for. */
  lose(): void;
};

export type Peer = {
  url: string;
  /** Commands whose connection the Worker has broken off. */
  aborted: string[];
  /** Commands that have come, and their steps. */
  seen: string[];
  steps: Step[];
  /** Handles a command whose body has arrived whole; undefined: it is passed on. */
  onCommand: ((turn: Turn) => Promise<void> | void) | undefined;
  /** Called with the number of bytes of an import so far; may cut it. */
  onBody: ((bytes: number, cut: () => void) => void) | undefined;
  /** Called with all of an import that has come, when it ends or breaks. */
  onImport: ((body: Buffer) => void) | undefined;
  close(): Promise<void>;
};

/** The step of a request to a bucket. @param key with the prefix; of a listing, what it lists */
export function stepOfBucket(method: string, key: string): Step {
  if (method === 'DELETE') return 'remove';
  const isData = key.includes('data/');
  if (!isData && !key.includes('cid/')) return 'other';
  if (method === 'PUT') return isData ? 'import' : 'keep';
  return isData && method !== 'HEAD' ? 'read' : 'look';
}
