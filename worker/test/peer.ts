/**
 * Peer between the Worker and the real IPFS node in tests, which misbehaves on demand. It passes
 * everything else on to the node.
 */
import { request as connect, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { startLoopbackServer } from '../../testkit/loopback-server.ts';

/**
 * One command on its way. `pass` sends it on, `answer` says something else, `cut` breaks the
 * connection off.
 */
export type Turn = {
  /** `dag/import`, `pin/ls`, `pin/add`, `pin/rm`, `block/get`, `cat`, … */
  command: string;
  cid: string | null;
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
};

export type Peer = {
  url: string;
  /** Commands whose connection the Worker has broken off. */
  aborted: string[];
  /** Commands that have come. */
  seen: string[];
  /** Handles a command whose body has arrived whole; undefined: it is passed on. */
  onCommand: ((turn: Turn) => Promise<void> | void) | undefined;
  /** Called with the number of bytes of an import so far; may cut it. */
  onBody: ((bytes: number, cut: () => void) => void) | undefined;
  close(): Promise<void>;
};

/** Starts a peer before a node, whose URL may change. */
export async function startPeer(node: string | (() => string)): Promise<Peer> {
  /**
   * Error of a command that is passed on, if the node or the Worker breaks it off, also in the
   * middle of its answer.
   */
  const lost = new Error('the node went away');
  const server = await startLoopbackServer((request, response) => void handle(request, response));
  const peer: Peer = { ...server, aborted: [], seen: [], onCommand: undefined, onBody: undefined };

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', typeof node === 'string' ? node : node());
    const command = url.pathname.replace('/api/v0/', '');
    peer.seen.push(command);
    const gone = new Promise<'gone'>((resolve) => {
      response.once('close', () => {
        if (!response.writableFinished) resolve('gone');
      });
    });
    const cut = (): void => void request.socket.destroy();
    const onward = connect(url.href, { method: 'POST', headers: { ...request.headers, host: url.host } });
    onward.on('error', () => undefined); // what it breaks on, the answer below breaks on as well
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      onward.once('response', resolve).once('close', () => reject(lost));
    });
    answered.catch(() => undefined);
    // The last piece waits for its turn: a node that has all bytes of a known length does not wait
    // for the end of the request.
    let last: Buffer | undefined;
    try {
      let bytes = 0;
      for await (const chunk of request as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        if (command === 'dag/import') peer.onBody?.(bytes, cut);
        if (last !== undefined && !onward.write(last))
          await Promise.race([new Promise((resolve) => onward.once('drain', resolve)), answered]);
        last = chunk;
      }
    } catch {
      // The Worker broke the request off: the node must not see an end.
      peer.aborted.push(command);
      onward.destroy();
      return;
    }
    const turn: Turn = {
      command,
      cid: url.searchParams.get('arg'),
      requestId: request.headers['x-request-id']?.toString(),
      async pass() {
        onward.end(last);
        const answer = await answered;
        const body = await buffer(answer).catch(() => Promise.reject(lost));
        const status = answer.statusCode ?? 500;
        return {
          status,
          body,
          deliver(changed = body) {
            response.writeHead(status, { 'content-type': answer.headers['content-type'] ?? 'application/json' });
            response.end(changed);
          },
        };
      },
      answer(status, body, headers = {}) {
        onward.destroy();
        response.writeHead(status, headers);
        response.end(body);
      },
      begin(body, bytes, then) {
        onward.destroy();
        response.writeHead(200, { 'content-length': bytes });
        response.write(body, () => {
          if (then === 'cut') request.socket.destroy();
        });
      },
      async trickle(body, bytesPerSecond) {
        response.writeHead(200, { 'content-length': body.length });
        for (let at = 0; at < body.length && !response.destroyed; at += bytesPerSecond / 10) {
          response.write(body.subarray(at, at + bytesPerSecond / 10));
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
        response.end();
      },
      cut() {
        onward.destroy();
        cut();
      },
    };
    void gone.then(() => {
      peer.aborted.push(command);
      onward.destroy();
    });
    try {
      await (peer.onCommand ?? forward)(turn);
    } catch (error) {
      if (error !== lost) throw error;
      turn.cut();
    }
  }

  async function forward(turn: Turn): Promise<void> {
    (await turn.pass()).deliver();
  }

  return peer;
}
