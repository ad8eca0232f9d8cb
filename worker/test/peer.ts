/**
 * Peer between the Worker and its real backend in tests, which misbehaves on demand. It passes
 * everything else on: to the IPFS node, or to the bucket that takes its place.
 */
import { request as connect, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { startLoopbackServer } from '../../testkit/loopback-server.ts';
import { first } from '../../testkit/present.ts';
import { backendKind, startService, type Service, type ServiceOptions } from '../../testkit/service.ts';
import { startBucketGate } from './bucket-gate.ts';
import { stepOfBucket, type Peer, type Step, type Turn } from './turn.ts';

export type { Peer, Step, Turn };

const stepsOfKubo: Record<string, Step> = {
  'dag/import': 'import',
  'pin/add': 'keep',
  'pin/ls': 'look',
  cat: 'read',
  'block/get': 'read',
  'pin/rm': 'remove',
};

/** What a store says that lacks something. */
const noSuchKey = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code></Error>';
/** What Kubo says. */
const notFound = JSON.stringify({ Message: 'block was not found locally', Code: 0, Type: 'error' });

/** Starts a peer before a backend, whose URL may change. */
export async function startPeer(node: string | (() => string)): Promise<Peer> {
  return backendKind === 'r2' ? await startBucketGate() : await startProxy(node);
}

/** Starts a service of `clock.ts` whose backend is behind a peer, which ends with it. */
export async function startBehindPeer(o: Pick<ServiceOptions, 'vars'> = {}): Promise<{ service: Service; peer: Peer }> {
  const peers: Peer[] = [];
  const through = async (node: string): Promise<string> => {
    const peer = await startPeer(node);
    peers.push(peer);
    return peer.url;
  };
  const service = await startService({ entry: 'worker/test/clock.ts', ...o, through });
  const close = async (): Promise<void> => {
    await service.close();
    await first(peers).close();
  };
  return { service: { ...service, close }, peer: first(peers) };
}

async function startProxy(node: string | (() => string)): Promise<Peer> {
  /**
   * Error of a command that is passed on, if the node or the Worker breaks it off, also in the
   * middle of its answer.
   */
  const lost = new Error('the node went away');
  const server = await startLoopbackServer((request, response) => void handle(request, response));
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
    const url = new URL(request.url ?? '/', typeof node === 'string' ? node : node());
    const isBucket = backendKind === 's3';
    const command = isBucket ? (request.method ?? '') : url.pathname.replace('/api/v0/', '');
    const step = isBucket
      ? stepOfBucket(command, url.searchParams.get('prefix') ?? url.pathname)
      : (stepsOfKubo[command] ?? 'other');
    peer.seen.push(command);
    peer.steps.push(step);
    const gone = new Promise<'gone'>((resolve) => {
      response.once('close', () => {
        if (!response.writableFinished) resolve('gone');
      });
    });
    const cut = (): void => void request.socket.destroy();
    // A bucket's host is signed.
    const host = isBucket ? request.headers.host : url.host;
    const onward = connect(url.href, { method: request.method ?? 'POST', headers: { ...request.headers, host } });
    onward.on('error', () => undefined); // what it breaks on, the answer below breaks on as well
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      onward.once('response', resolve).once('close', () => reject(lost));
    });
    answered.catch(() => undefined);
    // The last piece waits for its turn: a node that has all bytes of a known length does not wait
    // for the end of the request.
    let last: Buffer | undefined;
    const kept: Buffer[] = [];
    try {
      let bytes = 0;
      for await (const chunk of request as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        if (step === 'import') peer.onBody?.(bytes, cut);
        if (step === 'import' && peer.onImport !== undefined) kept.push(chunk);
        if (last !== undefined && !onward.write(last))
          await Promise.race([new Promise((resolve) => onward.once('drain', resolve)), answered]);
        last = chunk;
      }
    } catch {
      // The Worker broke the request off: the node must not see an end.
      peer.aborted.push(command);
      onward.destroy();
      return;
    } finally {
      if (step === 'import') peer.onImport?.(Buffer.concat(kept));
    }
    const turn: Turn = {
      step,
      command,
      cid: url.searchParams.get('arg'),
      key: isBucket ? url.pathname : null,
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
            const type = answer.headers['content-type'] ?? 'application/json';
            const headers = isBucket ? headersOf(answer.headers, changed, command) : { 'content-type': type };
            response.writeHead(status, headers);
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
      refuse: () => turn.answer(503, ''),
      lose() {
        if (isBucket) turn.answer(404, noSuchKey, { 'content-type': 'application/xml' });
        else turn.answer(500, notFound, { 'content-type': 'application/json' });
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

/** The headers of a bucket's answer that is passed on, with as many bytes as it has now. */
function headersOf(headers: IncomingHttpHeaders, body: Buffer, method: string): IncomingHttpHeaders {
  const { 'transfer-encoding': _, connection: __, 'keep-alive': ___, ...own } = headers;
  if (method === 'HEAD') return own;
  return { ...own, 'content-length': String(body.length) };
}
