/**
 * A pinning service that stores nothing, in a process of its own: it counts the blocks of an
 * import, remembers the names of pins, and gives one small block to every read. Prints its URL.
 */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

const onlyBlock = Buffer.from(process.argv[2] ?? '', 'base64');

/** Bytes of a CID, which precedes each block: what is shorter is the boundary after the CAR. */
const cidBytes = 36;

/** Counts the blocks of a CAR in a form while it passes: head, header, sections with lengths. */
function countBlocks(request: IncomingMessage): { blocks: number } {
  const counted = { blocks: -1 };
  let head: Buffer = Buffer.alloc(0);
  let inCar = false;
  let skip = 0;
  request.on('data', (chunk: Buffer) => {
    let rest: Buffer = chunk;
    for (;;) {
      const skipped = Math.min(skip, rest.length);
      skip -= skipped;
      rest = rest.subarray(skipped);
      if (head.length > 0) rest = Buffer.concat([head, rest]);
      head = Buffer.alloc(0);
      const end = inCar ? rest.findIndex((byte) => byte < 0x80) + 1 : rest.indexOf('\r\n\r\n') + 4;
      if (skip > 0 || rest.length === 0) return;
      if (end < (inCar ? 1 : 4)) {
        head = rest;
        return;
      }
      if (inCar) {
        skip = rest.subarray(0, end).reduce((length, byte, index) => length + (byte & 0x7f) * 0x80 ** index, 0);
        if (counted.blocks >= 0 && skip < cidBytes) skip = Number.POSITIVE_INFINITY;
        else counted.blocks += 1;
      }
      inCar = true;
      rest = rest.subarray(end);
    }
  });
  return counted;
}

/** The names of what is pinned, by CID. */
const pinNames = new Map<string, string>();

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://sink');
  const command = pathname.replace('/api/v0/', '');
  const reply = (status: number, body: unknown): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  const counted = command === 'dag/import' ? countBlocks(request) : undefined;
  request.resume();
  request.on('end', () => {
    const cid = searchParams.get('arg') ?? '';
    const name = pinNames.get(cid);
    if (command === 'pin/add') pinNames.set(cid, searchParams.get('name') ?? '');
    if (command === 'pin/rm') pinNames.delete(cid);
    if (command === 'pin/ls' && name === undefined)
      reply(500, { Message: `path '${cid}' is not pinned`, Code: 0, Type: 'error' });
    else if (command === 'pin/ls') reply(200, { Keys: { [cid]: { Type: 'recursive', Name: name } } });
    else if (command === 'dag/import') reply(200, { Stats: { BlockCount: counted?.blocks } });
    else if (command === 'pin/add' || command === 'pin/rm') reply(200, { Pins: [cid] });
    else if (command === 'block/get' || command === 'cat')
      response.writeHead(200, { 'content-length': onlyBlock.length }).end(onlyBlock);
    else reply(200, {});
  });
});
server.listen(0, '127.0.0.1', () =>
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`),
);
