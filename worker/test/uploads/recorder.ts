/**
 * A node that remembers every block that was sent to it, also those of requests that broke off or
 * that it refused.
 */
import type { IncomingMessage } from 'node:http';
import { startLoopbackServer } from '../../../testkit/loopback-server.ts';
import { present } from '../../../testkit/present.ts';

export type Recorder = {
  url: string;
  /** Blocks as far as they arrived. */
  blocks: Buffer[];
  /** Number of the next imports that it reads and then refuses. */
  refusals: number;
  /** Requests by command. */
  seen: string[];
  close(): Promise<void>;
};

const cidBytes = 36;

function varint(bytes: Buffer, from: number): { value: number; next: number } | undefined {
  let value = 0;
  for (let index = from, factor = 1; index < bytes.length; index += 1, factor *= 128) {
    const byte = present(bytes[index]);
    value += (byte & 0x7f) * factor;
    if (byte < 0x80) return { value, next: index + 1 };
  }
  return undefined;
}

/** The raw leaves of the CAR in a multipart body, which may have been cut off anywhere. */
function leavesIn(body: Buffer): Buffer[] {
  const start = body.indexOf('\r\n\r\n');
  const header = start < 0 ? undefined : varint(body, start + 4);
  const found: Buffer[] = [];
  for (let at = header && header.next + header.value; at !== undefined;) {
    const section = varint(body, at);
    if (section === undefined || section.value < cidBytes) break;
    const end = section.next + section.value;
    const isRaw = body[section.next + 1] === 0x55;
    if (isRaw) found.push(body.subarray(section.next + cidBytes, Math.min(end, body.length)));
    at = end;
  }
  return found;
}

/** Starts a recorder in front of a node. */
export async function startRecorder(node: string): Promise<Recorder> {
  const server = await startLoopbackServer((request, response) => {
    void (async () => {
      const command = new URL(present(request.url), node).pathname.replace('/api/v0/', '');
      recorder.seen.push(command);
      const { body, isWhole } = await bodyOf(request);
      if (command === 'dag/import') recorder.blocks.push(...leavesIn(body));
      if (!isWhole) return;
      if (command === 'dag/import' && recorder.refusals > 0) {
        recorder.refusals -= 1;
        response.writeHead(503).end();
        return;
      }
      const { authorization, 'content-type': type } = request.headers;
      const answer = await fetch(`${node}${request.url}`, {
        method: 'POST',
        headers: { ...(authorization && { authorization }), ...(type && { 'content-type': type }) },
        ...(body.length > 0 && { body: new Uint8Array(body) }),
      });
      response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'text/plain' });
      response.end(Buffer.from(await answer.arrayBuffer()));
    })().catch(() => request.socket.destroy());
  });
  const recorder: Recorder = { ...server, blocks: [], refusals: 0, seen: [] };

  return recorder;
}

async function bodyOf(request: IncomingMessage): Promise<{ body: Buffer; isWhole: boolean }> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    return { body: Buffer.concat(chunks), isWhole: true };
  } catch {
    return { body: Buffer.concat(chunks), isWhole: false };
  }
}
