/**
 * Peer of a bucket of R2, which no proxy reaches: the Worker asks it before each request to its
 * bucket, and before it gives the answer on (`gated-bucket.ts`).
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { startLoopbackServer } from '../../testkit/loopback-server.ts';
import { stepOfBucket, type Peer, type Turn } from './turn.ts';

type After = { status: number; body: Buffer; deliver(body?: Buffer): void };

/** Starts one. */
export async function startBucketGate(): Promise<Peer> {
  const passed = new Map<string, (after: After) => void>();
  const server = await startLoopbackServer((request, response) => {
    handle(request, response).catch(() => request.socket.destroy());
  });
  const peer: Peer = {
    ...server,
    aborted: [],
    seen: [],
    steps: [],
    onCommand: undefined,
    onBody: undefined,
    onImport: undefined,
  };

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://gate');
    const turnId = searchParams.get('turn') ?? '';
    const method = searchParams.get('method') ?? '';
    const key = searchParams.get('key') ?? '';
    const step = stepOfBucket(method, key);
    const body = await buffer(request);
    if (pathname === '/after') {
      const deliver = (changed = body): void => void response.end(changed);
      passed.get(turnId)?.({ status: 200, body, deliver });
      passed.delete(turnId);
      return;
    }
    if (step === 'import') peer.onImport?.(body);
    if (pathname === '/broken') {
      peer.aborted.push(method);
      response.end();
      return;
    }
    peer.seen.push(method);
    peer.steps.push(step);
    response.once('close', () => {
      if (!response.writableFinished) peer.aborted.push(method);
    });
    await (peer.onCommand ?? forward)(turnOf({ request, response, method, key, step, turnId }));
  }

  function turnOf(o: {
    request: IncomingMessage;
    response: ServerResponse;
    method: string;
    key: string;
    step: Turn['step'];
    turnId: string;
  }): Turn {
    const { request, response, method, key, step, turnId } = o;
    const cannot = (): never => {
      throw new Error('a bucket of R2 gives no part of an answer');
    };
    const answer = (status: number): void => void response.writeHead(status).end();
    return {
      step,
      command: method,
      cid: null,
      key,
      requestId: undefined,
      async pass() {
        const after = new Promise<After>((resolve) => passed.set(turnId, resolve));
        answer(200);
        return await after;
      },
      answer,
      begin: cannot,
      trickle: cannot,
      cut: () => void request.socket.destroy(),
      refuse: () => answer(503),
      lose: () => answer(404),
    };
  }

  return peer;
}

async function forward(turn: Turn): Promise<void> {
  (await turn.pass()).deliver();
}
