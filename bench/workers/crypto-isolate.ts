/** Measurements in a Worker and a page: our containers beside noble alone. */
import { gcm } from '@noble/ciphers/aes.js';
import { chacha20poly1305 } from '@noble/ciphers/chacha.js';
import {
  encrypt,
  generateKeyPair,
  open,
  parseIdentities,
  parseRecipients,
  type Format,
} from '../../shared/crypto/index.ts';
import { pulled } from '../../shared/streams/pulled.ts';
import { chunksOf } from '../../shared/streams/read-all.ts';

const MiB = 2 ** 20;
const block = Uint8Array.from({ length: MiB }, (_, index) => (index * 7919) & 0xff);

function source(pieces: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  const left = pieces.values();
  return pulled({ next: async () => left.next().value, cancel: () => undefined });
}

async function collect(stream: ReadableStream<Uint8Array>): Promise<Uint8Array[]> {
  const parts: Uint8Array[] = [];
  for await (const part of chunksOf(stream)) parts.push(part);
  return parts;
}

/** Seals or opens chunk after chunk with noble, into an array for each MiB. */
function noble(cipher: typeof gcm | typeof chacha20poly1305, chunkBytes: number, mebibytes: number): void {
  const key = block.slice(0, 32);
  const nonce = block.slice(32, 44);
  for (let index = 0; index < mebibytes; index += 1) {
    const out = new Uint8Array(MiB + (MiB / chunkBytes) * 16);
    for (let at = 0, to = 0; at < MiB; at += chunkBytes, to += chunkBytes + 16) {
      nonce[11] = at / chunkBytes;
      out.set(cipher(key, nonce).encrypt(block.subarray(at, at + chunkBytes)), to);
    }
  }
}

/** The kinds of work that `work` knows. */
export type WorkKind = `${'' | 'open '}${'sealpin' | 'age'}` | 'noble AES-256-GCM' | 'noble ChaCha20-Poly1305';

const containers = new Map<string, { parts: Uint8Array[]; privatePem: string }>();

/** Does a kind of work. The first call, which is not measured, makes a container to open. */
export async function work(kind: WorkKind, mebibytes: number): Promise<void> {
  if (kind === 'noble AES-256-GCM') return noble(gcm, 16_384, mebibytes);
  if (kind === 'noble ChaCha20-Poly1305') return noble(chacha20poly1305, 65_536, mebibytes);
  const format: Format = kind.endsWith('age') ? 'age' : 'sealpin';
  const isOpening = kind.startsWith('open');
  const known = containers.get(`${format} ${mebibytes}`);
  if (isOpening && known !== undefined) {
    const { parts, privatePem } = known;
    const opened = await open(source(parts));
    if (!('decrypt' in opened)) throw new Error(`it is ${opened.kind}`);
    await collect(await opened.decrypt(parseIdentities(privatePem)));
    return;
  }
  const { recipient, privatePem } = await generateKeyPair();
  const plaintext = source(Array.from({ length: mebibytes }, () => block));
  const { stream } = await encrypt(plaintext, { format, recipients: parseRecipients(recipient) });
  const parts = await collect(stream);
  if (isOpening) containers.set(`${format} ${mebibytes}`, { parts, privatePem });
}

Object.assign(globalThis, { work });

// oxlint-disable-next-line import/no-default-export -- workerd looks for it there
export default {
  async fetch(request: Request): Promise<Response> {
    const { searchParams } = new URL(request.url);
    await work(searchParams.get('kind') as WorkKind, Number(searchParams.get('mebibytes')));
    return new Response('done');
  },
};
