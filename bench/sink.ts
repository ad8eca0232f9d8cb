/**
 * A pinning service that stores nothing, in a process of its own: its response to an upload names the CID of the last `pin/ls`, and
 * every read gets one small block. Prints its URL.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

let lastCid = '';
const block = Buffer.from(process.argv[2] ?? '', 'base64');

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://sink');
  const command = pathname.replace('/api/v0/', '');
  const reply = (status: number, body: unknown): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  request.resume().on('end', () => {
    const cid = searchParams.get('arg') ?? '';
    if (command === 'pin/ls') {
      lastCid = cid;
      reply(500, { Message: `path '${cid}' is not pinned`, Code: 0, Type: 'error' });
    } else if (command === 'add') reply(200, { Name: 'sealpin', Hash: lastCid, Size: '0' });
    else if (command === 'pin/rm') reply(200, { Pins: [cid] });
    else if (command === 'block/get' || command === 'cat')
      response.writeHead(200, { 'content-length': block.length }).end(block);
    else reply(200, {});
  });
});
server.listen(0, '127.0.0.1', () =>
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`),
);
