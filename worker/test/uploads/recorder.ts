/**
 * A backend that remembers every block that was sent to it, also those of requests that broke off
 * or that it refused.
 */
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { present } from '../../../testkit/present.ts';
import { backendKind } from '../../../testkit/service.ts';
import { startPeer } from '../peer.ts';

export type Recorder = {
  url: string;
  /** Blocks as far as they arrived. */
  blocks: Buffer[];
  /** Number of the next imports that it reads and then refuses. */
  refusals: number;
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

/** The leaves of a body that came to a backend. */
function leavesOf(body: Buffer): Buffer[] {
  if (backendKind === 'kubo') return leavesIn(body);
  const starts = Array.from({ length: Math.ceil(body.length / leafBytes) }, (_, index) => index * leafBytes);
  return starts.map((start) => body.subarray(start, start + leafBytes));
}

/** Starts a recorder in front of a backend. */
export async function startRecorder(backend: string): Promise<Recorder> {
  const peer = await startPeer(backend);
  const recorder: Recorder = { url: peer.url, blocks: [], refusals: 0, close: () => peer.close() };
  /** What is refused stays refused, however often it is asked for. */
  const refused = new Set<string>();
  peer.onImport = (body) => void recorder.blocks.push(...leavesOf(body));
  peer.onCommand = async (turn) => {
    if (turn.step !== 'import') return (await turn.pass()).deliver();
    if (turn.key === null || !refused.has(turn.key)) {
      if (recorder.refusals === 0) return (await turn.pass()).deliver();
      recorder.refusals -= 1;
      if (turn.key !== null) refused.add(turn.key);
    }
    turn.refuse();
  };
  return recorder;
}
