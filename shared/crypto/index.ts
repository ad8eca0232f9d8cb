// Signatures first, filled in part by part.
import type { Backend } from './backend.ts';
import type { Format, Identity, Recipient } from './types.ts';
export type { Aead, Backend } from './backend.ts';
export type { Format, Identity, Recipient, Stanza } from './types.ts';

export declare const webBackend: Backend;
export declare function passwordRecipient(password: string, kdf?: { name: 'scrypt'; logN?: number } | { name: 'pbkdf2-sha512'; iterations?: number }): Recipient;
export declare function passwordIdentity(password: string): Identity;
export declare function encrypt(plaintext: ReadableStream<Uint8Array>, o: { format: Format; recipients: readonly Recipient[]; backend?: Backend }): Promise<{ stream: ReadableStream<Uint8Array>; size(plaintextBytes: number): number }>;
export type Opened =
  | { kind: 'plain'; stream: ReadableStream<Uint8Array> }
  | { kind: 'detached' }
  | { kind: 'age' | 'sealpin'; opens: 'password' | 'keys'; decrypt(identities: readonly Identity[]): Promise<ReadableStream<Uint8Array>> };
export declare function open(container: ReadableStream<Uint8Array>, o?: { backend?: Backend }): Promise<Opened>;
export type KeyPair = { pkcs8: Uint8Array; spki: Uint8Array; privatePem: string; publicPem: string; recipient: string };
export declare function generateKeyPair(backend?: Backend): Promise<KeyPair>;
export declare function parseIdentities(text: string): Identity[];
export declare function parseRecipients(text: string): Recipient[];
export declare function recipientFromSpki(spki: Uint8Array): Recipient;
export declare function identityFromPkcs8(pkcs8: Uint8Array): Identity;
export type FileInfo = { filename: string | null; contentType: string; size: number };
export declare function encryptDetached(plaintext: ReadableStream<Uint8Array>, o: { recipient: Recipient; backend?: Backend }): Promise<{ payload: ReadableStream<Uint8Array>; header(fileId: string, file: FileInfo): Promise<Uint8Array> }>;
export declare function detachedPayloadBytes(plaintextBytes: number): number;
export declare function plaintextBytes(payloadBytes: number): number | undefined;
export declare function openDetached(header: Uint8Array, o: { fileId: string; identities: readonly Identity[]; backend?: Backend }): Promise<{
  file: FileInfo;
  decrypt(payload: ReadableStream<Uint8Array>): ReadableStream<Uint8Array>;
  decryptRange(o: { start: number; end: number; read(offset: number, length: number): Promise<ReadableStream<Uint8Array>> }): Promise<ReadableStream<Uint8Array>>;
}>;
export type ApiKey = { text: string; account: string; secret: Uint8Array; hash: string };
export declare function newApiKey(account: string, backend?: Backend): Promise<ApiKey>;
export declare function newAccountId(backend?: Backend): string;
export declare function parseApiKey(text: string): Promise<ApiKey | undefined>;
export declare function sealPrivateKey(key: ApiKey, o: { id: string; pkcs8: Uint8Array; spki: Uint8Array }): Promise<Uint8Array>;
export declare function unsealPrivateKey(key: ApiKey, o: { id: string; sealed: Uint8Array; spki: Uint8Array }): Promise<Uint8Array>;
