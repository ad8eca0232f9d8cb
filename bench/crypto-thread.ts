/** A thread that encrypts or decrypts so many MiB for each message. */
import { createCipheriv, createDecipheriv, createSecretKey, randomBytes } from 'node:crypto';
import { parentPort, workerData } from 'node:worker_threads';
import { Decrypter, Encrypter } from 'age-encryption';
import * as openpgp from 'openpgp';
import { nodeProvider } from '../cli/keys/node-provider.ts';
import {
  encrypt,
  generateKeyPair,
  open,
  parseIdentities,
  parseRecipients,
  type Format,
} from '../shared/crypto/index.ts';
import { pulled } from '../shared/streams/pulled.ts';
import type { Task } from './crypto.bench.ts';
import { MiB } from './figure.ts';

/** MiB of a container to decrypt, held in memory: a larger one would cost garbage collection. */
const heldMebibytes = 32;
const plainBlock = new Uint8Array(randomBytes(MiB));

const { name, direction, chunkBytes, totalMebibytes } = workerData as Task & { totalMebibytes: number };

if (parentPort === null) throw new Error('this module runs in a worker thread only');
const port = parentPort;
const measuredWork = await prepare();
port.on('message', () => {
  measuredWork().then(
    () => port.postMessage(undefined),
    (error: unknown) => port.postMessage(String(error)),
  );
});

async function prepare(): Promise<() => Promise<void>> {
  if (name === 'aes-256-gcm' || name === 'chacha20-poly1305')
    return async () => cipherAlone(name, chunkBytes, direction);
  const pair = await generateKeyPair(nodeProvider);
  const contestant =
    name === 'openpgp' ? openPgp() : name === 'typage' ? await typage(pair) : sealpinFormat(name, pair);
  if (direction === 'encrypt') return async () => readToEnd(await contestant.encrypt(plainSource(totalMebibytes)));
  const container = await Array.fromAsync(await contestant.encrypt(plainSource(heldMebibytes)));
  return async () => {
    for (let done = 0; done < totalMebibytes; done += heldMebibytes) await contestant.decrypt(source(container));
  };
}

function plainSource(mebibytes: number): ReadableStream<Uint8Array> {
  return source(Array.from({ length: mebibytes }, () => plainBlock));
}

/** A stream of pieces as they are: none of the measured readers changes its input. */
function source(pieces: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  const left = pieces.values();
  return pulled({ next: async () => left.next().value, cancel: () => undefined });
}

async function readToEnd(stream: ReadableStream<Uint8Array>): Promise<void> {
  const reader = stream.getReader();
  while (!(await reader.read()).done);
}

/** Our format, on `node:crypto`. */
function sealpinFormat(format: Format, pair: { recipient: string; privatePem: string }) {
  return {
    encrypt: async (plaintext: ReadableStream<Uint8Array>) =>
      (await encrypt(plaintext, { format, recipients: parseRecipients(pair.recipient), provider: nodeProvider }))
        .stream,
    async decrypt(container: ReadableStream<Uint8Array>) {
      const opened = await open(container, { provider: nodeProvider });
      if (!('decrypt' in opened)) throw new Error(`it is ${opened.kind}`);
      await readToEnd(await opened.decrypt(parseIdentities(pair.privatePem)));
    },
  };
}

/** The bare cipher of node:crypto on chunks of the same size. */
function cipherAlone(
  name: 'aes-256-gcm' | 'chacha20-poly1305',
  chunkBytes: number,
  direction: 'encrypt' | 'decrypt',
): void {
  const key = createSecretKey(plainBlock.subarray(0, 32));
  const nonce = plainBlock.subarray(32, 44);
  // Node's types offer getAuthTag for GCM ciphers alone; ChaCha20-Poly1305 has it, too.
  const cipher = name as 'aes-256-gcm';
  for (let index = 0; index < totalMebibytes; index += 1) {
    for (let at = 0; at < MiB; at += chunkBytes) {
      const chunk = plainBlock.subarray(at, at + chunkBytes);
      if (direction === 'encrypt') {
        const sealing = createCipheriv(cipher, key, nonce, { authTagLength: 16 });
        sealing.update(chunk);
        sealing.final();
        sealing.getAuthTag();
      } else createDecipheriv(cipher, key, nonce, { authTagLength: 16 }).update(chunk);
    }
  }
}

/** typage, to the same kind of key; as it has no P-256 identities, an X25519 one opens. */
async function typage({ recipient }: { recipient: string }) {
  const { generateX25519Identity, identityToRecipient } = await import('age-encryption');
  const identity = await generateX25519Identity();
  return {
    async encrypt(plaintext: ReadableStream<Uint8Array>): Promise<ReadableStream<Uint8Array>> {
      const encrypter = new Encrypter();
      encrypter.addRecipient(recipient);
      encrypter.addRecipient(await identityToRecipient(identity));
      return encrypter.encrypt(plaintext);
    },
    async decrypt(container: ReadableStream<Uint8Array>): Promise<void> {
      const decrypter = new Decrypter();
      decrypter.addIdentity(identity);
      await readToEnd(await decrypter.decrypt(container));
    },
  };
}

/** OpenPGP.js with AES-256-GCM under a session key, so that no password is derived. */
function openPgp() {
  const sessionKey = { data: randomBytes(32), algorithm: 'aes256' as const, aeadAlgorithm: 'gcm' as const };
  return {
    async encrypt(plaintext: ReadableStream<Uint8Array>): Promise<ReadableStream<Uint8Array>> {
      const message = await openpgp.createMessage({ binary: plaintext });
      return openpgp.encrypt({
        message,
        sessionKey,
        passwords: 'x',
        format: 'binary',
        config: { s2kIterationCountByte: 0, preferredAEADAlgorithm: openpgp.enums.aead.gcm, aeadProtect: true },
      });
    },
    async decrypt(container: ReadableStream<Uint8Array>): Promise<void> {
      const message = await openpgp.readMessage({ binaryMessage: container });
      const { data } = await openpgp.decrypt({
        message,
        sessionKeys: [sessionKey],
        format: 'binary',
        config: { allowUnauthenticatedStream: true },
      });
      await readToEnd(data);
    },
  };
}
