/** An HTTP proxy on loopback that does to chosen requests what networks do. */
import { request as requestHttp, type IncomingMessage } from 'node:http';
import { once } from 'node:events';
import { Transform } from 'node:stream';
import { onTestFinished } from 'vitest';
import { startLoopbackServer } from './loopback-server.ts';

export type Fault =
  /** The connection breaks when so many bytes of the body have passed. */
  | { readonly kind: 'break'; readonly afterBytes: number }
  /** The connection breaks when so many bytes of the response have passed; `stall`: it stays open, and nothing more comes. */
  | { readonly kind: 'cut' | 'stall'; readonly afterBytes: number }
  /** This byte of the response arrives as another one. */
  | { readonly kind: 'flip'; readonly atByte: number }
  /** The service gets the whole request; its response gets lost. */
  | { readonly kind: 'swallow' }
  /** Something between answers instead of the service. */
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly headers?: Record<string, string>;
      readonly body?: string;
    };

export type Passed = { readonly method: string; readonly path: string; readonly headers: IncomingMessage['headers'] };

/**
 * Starts a proxy in front of a service; it ends with the test.
 * @param fault called for each request with those before it; undefined passes the request on
 */
export async function faultyProxy(
  target: () => string,
  fault: (request: Passed, before: readonly Passed[]) => Fault | undefined | Promise<Fault | undefined>,
): Promise<{ readonly url: string; readonly passed: Passed[] }> {
  const passed: Passed[] = [];
  const server = await startLoopbackServer((request, response) => {
    const { method = '', url: path = '', headers } = request;
    const seen = { method, path, headers };
    const before = [...passed];
    passed.push(seen);
    request.on('error', () => undefined);
    const work = async (): Promise<void> => {
      const found = await fault(seen, before);
      if (found?.kind === 'answer') {
        request.resume();
        response.writeHead(found.status, found.headers).end(found.body);
        return undefined;
      }
      const url = new URL(path, target());
      const onward = requestHttp(url.href, { agent: false, method, headers: { ...headers, host: url.host } });
      onward.on('error', () => response.destroy());
      request.once('close', () => void (request.complete || onward.destroy()));
      let bytes = 0;
      if (found?.kind === 'break')
        request.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes < found.afterBytes) return;
          request.unpipe(onward);
          // What was passed on is on its way: only then the line breaks.
          onward.write('', () => {
            request.destroy();
            onward.destroy();
          });
        });
      request.pipe(onward);
      const [answer] = (await once(onward, 'response')) as [IncomingMessage];
      if (found?.kind === 'swallow') {
        answer.resume();
        await once(answer, 'end');
        request.socket.destroy();
        return undefined;
      }
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      response.once('close', () => answer.destroy());
      if (found?.kind === 'flip') return void answer.pipe(flipping(found.atByte)).pipe(response);
      if (found?.kind !== 'cut' && found?.kind !== 'stall') return void answer.pipe(response);
      let left = found.afterBytes;
      for await (const chunk of answer as AsyncIterable<Buffer>) {
        await new Promise((resolve) => response.write(chunk.subarray(0, left), resolve));
        left -= chunk.length;
        if (left <= 0) break;
      }
      if (found.kind === 'cut') response.destroy();
    };
    work().catch(() => request.destroy());
  });
  onTestFinished(() => server.close());
  return { url: server.url, passed };
}

/** Passes bytes on, one of them changed. */
function flipping(atByte: number): Transform {
  let left = atByte;
  return new Transform({
    transform(chunk: Buffer, _, done) {
      if (left >= 0 && left < chunk.length) chunk.writeUInt8(chunk.readUInt8(left) ^ 1, left);
      left -= chunk.length;
      done(null, chunk);
    },
  });
}
