/**
 * A pinning service that keeps nothing, in a process of its own: it answers an upload with the CID that was asked after last, and
 * holds one small block. Prints its address.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

let asked = '';
const block = Buffer.from(process.argv[2] ?? '', 'base64');

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://sink');
  const command = pathname.replace('/api/v0/', '');
  const answer = (status: number, body: unknown): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  request.resume().on('end', () => {
    const cid = searchParams.get('arg') ?? '';
    if (command === 'pin/ls') {
      asked = cid;
      answer(500, { Message: `path '${cid}' is not pinned`, Code: 0, Type: 'error' });
    } else if (command === 'add') answer(200, { Name: 'sealpin', Hash: asked, Size: '0' });
    else if (command === 'pin/rm') answer(200, { Pins: [cid] });
    else if (command === 'block/get' || command === 'cat')
      response.writeHead(200, { 'content-length': block.length }).end(block);
    else answer(200, {});
  });
});
server.listen(0, '127.0.0.1', () =>
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`),
);
