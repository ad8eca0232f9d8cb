/** Connections of the listener of a local service to its runtime, here a server of the test. */
import { once } from 'node:events';
import { Agent, createServer, request, type IncomingMessage, type RequestListener } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../local/port.ts';
import { present } from '../../../testkit/present.ts';
import type { Direct } from '../../local/front/handover.ts';
import { startLoopback } from '../../local/front/loopback-front.ts';

/** A listener in front of a runtime, and requests on one connection that is read as HTTP. */
async function listening(answer: RequestListener) {
  let connections = 0;
  const runtime = createServer(answer).on('connection', () => (connections += 1));
  await once(runtime.listen(0, '127.0.0.1'), 'listening');
  const port = await freePort(0);
  const direct = { header: async () => ['Sealpin-Handover', 'secret'] } as unknown as Direct;
  const { port: path } = present(runtime.address()) as { port: number };
  const { close } = await startLoopback({ port, path, direct, log: () => undefined });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(async () => {
    agent.destroy();
    await close();
    runtime.close();
  });
  const send = async (path: string, method = 'GET'): Promise<string> => {
    const sent = request({ port, path, method, agent }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    return await text(response);
  };
  await send('/ipfs/a');
  return { send, connections: () => connections };
}

test('reads on one connection use one connection to the runtime', async () => {
  const { send, connections } = await listening((asked, response) => response.end(asked.url));
  for (const path of ['/v1/account', '/ipfs/b', '/v1/storage']) expect(await send(path)).toBe(path);
  expect(connections()).toBe(1);
});

test('a read whose connection the runtime has closed is sent again, and nothing else is', async () => {
  const seen: string[] = [];
  const { send, connections } = await listening((asked, response) => {
    const isFirst = !seen.includes(String(asked.url));
    seen.push(String(asked.url));
    if (asked.url !== '/ipfs/a' && isFirst) asked.socket.destroy();
    else response.end('answered');
  });
  expect(await send('/v1/account')).toBe('answered');
  await expect(send('/v1/other', 'DELETE')).rejects.toThrow('socket hang up');
  expect(seen).toEqual(['/ipfs/a', '/v1/account', '/v1/account', '/v1/other']);
  expect(connections()).toBe(3);
});

test('a read whose response has begun breaks off, and is not sent again', async () => {
  const seen: string[] = [];
  const { send } = await listening((asked, response) => {
    seen.push(String(asked.url));
    if (asked.url === '/ipfs/a') response.end('answered');
    else response.writeHead(200, { 'content-length': 1000 }).write('some', () => asked.socket.resetAndDestroy());
  });
  await expect(send('/v1/account')).rejects.toThrow('aborted');
  expect(await send('/ipfs/a')).toBe('answered');
  expect(seen).toEqual(['/ipfs/a', '/v1/account', '/ipfs/a']);
});
