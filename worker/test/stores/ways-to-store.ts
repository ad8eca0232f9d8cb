/** The ways in which the bytes of a file can be stored in one request. */
import { foreignCar } from './foreign-car.ts';

type Sent = { path: string; headers?: Record<string, string>; body: BodyInit };

const named = { 'Content-Disposition': 'attachment; filename="a"' };
const car = { 'Content-Type': 'application/vnd.ipld.car' };

export const waysToStore: Readonly<Record<string, (content: Buffer) => Sent | Promise<Sent>>> = {
  plain: (content) => ({ path: 'plain', body: new Uint8Array(content) }),
  encrypted: (content) => ({ path: 'encrypted', headers: named, body: new Uint8Array(content) }),
  JSON: (content) => ({
    path: 'plain',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ filename: 'a', data: content.toString('base64') }),
  }),
  // Without a length, so that its objects are held whole.
  'a stream': (content) => ({ path: 'plain', body: new Blob([new Uint8Array(content)]).stream() }),
  // The layout of the profile, so that others have the same CID.
  'a CAR': async (content) => ({ path: 'plain', headers: car, body: await foreignCar(content, 1_048_576) }),
  // So many blocks that 4.5 MiB of them come in two parts.
  'a CAR of small blocks': async (content) => {
    const leafBytes = Math.max(4200, Math.ceil(content.length / 1500));
    return { path: 'plain', headers: car, body: await foreignCar(content, leafBytes) };
  },
};

type Init = { method: string; body: BodyInit; headers: Record<string, string>; duplex?: 'half' };

/** A request that stores a content. */
export async function requestOf(way: string, content: Buffer): Promise<{ path: string; init: Init }> {
  const sent = await waysToStore[way]?.(content);
  if (sent === undefined) throw new RangeError(`nothing is stored as ${way}`);
  const { path, body, headers: own } = sent;
  const headers = { 'Content-Type': 'application/octet-stream', ...own };
  const init = { method: 'POST', body, headers, ...(body instanceof ReadableStream && { duplex: 'half' as const }) };
  return { path: `/v1/storage/${path}`, init };
}
