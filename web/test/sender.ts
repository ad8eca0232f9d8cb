/** The service with shares in it. */
import { connect, type Connection, type To } from '../../client/index.ts';
import {
  encrypt,
  encryptPayload,
  fileKeyOf,
  parseIdentities,
  parseRecipients,
  passwordRecipient,
} from '../../shared/crypto/index.ts';
import { printLink, sealParcel, type Parcel, type ParcelFile } from '../../shared/link/index.ts';
import { sharedService, type Service } from '../../testkit/service.ts';

/** File that a test sends: bytes under a name. */
export type Sent = { name: string; bytes: Uint8Array<ArrayBuffer> };

/** Options of a share. */
export type ShareOptions = { password?: string; keys?: string; opens?: number; note?: string; from?: string };

/** Cheap, because no test of a page is about the cost of a password. */
const kdf = { name: 'scrypt', logN: 10 } as const;

/** The service that all files of a process share, and an account there that sends. */
export class Sender {
  readonly service: Service;
  readonly apiKey: string;
  readonly connection: Connection;
  readonly root: string;

  protected constructor(service: Service, apiKey: string) {
    this.service = service;
    this.apiKey = apiKey;
    this.connection = connect({ service: service.url, apiKey });
    this.root = `${service.url}/`;
  }

  static async start(): Promise<Sender> {
    const service = await sharedService();
    return new Sender(service, (await service.account()).apiKey);
  }

  /** Stores bytes as a payload without a header, as a sender of files does. */
  async store({ name, bytes }: Sent): Promise<ParcelFile> {
    const { payload, fileKey } = await encryptPayload(new Blob([bytes]).stream());
    const { cid } = await this.connection.put(await new Response(payload as BodyInit).blob(), { mode: 'plain' });
    return { cid, fileKey, name, type: 'application/octet-stream', size: bytes.length };
  }

  /** Shares files, and gives the link. */
  async share(sent: readonly Sent[], o: ShareOptions = {}): Promise<string> {
    return this.shareParcel({ files: await Promise.all(sent.map((each) => this.store(each))) }, o);
  }

  /** Shares files that are stored already. */
  async shareParcel(parcel: Parcel, { password, keys, opens = 5, ...words }: ShareOptions = {}): Promise<string> {
    const { record, secret } = await sealParcel(
      { ...parcel, ...words },
      {
        password,
        kdf,
        recipients: keys === undefined ? [] : parseRecipients(keys),
      },
    );
    const { id } = await this.#post('v1/shares', {
      record: Buffer.from(record).toString('base64'),
      files: [],
      opens,
      password: password !== undefined,
    });
    return printLink({ kind: 'share', service: this.root, id, secret });
  }

  /** Stores an age file, and gives its blob ID. */
  async storeContainer(bytes: Uint8Array<ArrayBuffer>, to: To): Promise<string> {
    return (await this.connection.put(await ageFile(bytes, to), { mode: 'plain' })).cid;
  }

  /** Stores an age file, and gives a link with its file key. */
  async blobLink(bytes: Uint8Array<ArrayBuffer>, keys: { privateKey: string; publicKey: string }): Promise<string> {
    const blob = await ageFile(bytes, { keys: keys.publicKey });
    const fileKey = await fileKeyOf(blob.stream(), { identities: parseIdentities(keys.privateKey) });
    const { cid } = await this.connection.put(blob, { mode: 'plain' });
    return printLink({ kind: 'blob', service: this.root, cid, fileKey });
  }

  async revoke(link: string): Promise<void> {
    const id = link.split('#1')[1]?.slice(0, 22);
    await fetch(`${this.root}v1/shares/${id}`, {
      method: 'DELETE',
      headers: { Authorization: `Bearer ${this.apiKey}` },
    });
  }

  async #post(path: string, body: unknown): Promise<{ id: string }> {
    const response = await fetch(this.root + path, {
      method: 'POST',
      headers: { Authorization: `Bearer ${this.apiKey}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(await response.text());
    return (await response.json()) as { id: string };
  }
}

/** An age file; a password costs little. */
export async function ageFile(bytes: Uint8Array<ArrayBuffer>, to: To): Promise<Blob> {
  const recipients =
    'password' in to ? [passwordRecipient(to.password, kdf)] : [to.keys].flat().flatMap((key) => parseRecipients(key));
  const { stream } = await encrypt(new Blob([bytes]).stream(), { format: 'age', recipients });
  return new Response(stream as BodyInit).blob();
}

/** A red pixel. */
export const png = new Uint8Array(
  Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M/wHwAEBgIApD5fRAAAAABJRU5ErkJggg==',
    'base64',
  ),
);

/** A second of sound, of 8 bits at 44.1 kHz. */
export function wav(): Uint8Array<ArrayBuffer> {
  const samples = 44_100;
  const bytes = Buffer.alloc(44 + samples, 128);
  bytes.write('RIFF');
  bytes.writeUInt32LE(36 + samples, 4);
  bytes.write('WAVEfmt ', 8);
  for (const [at, value] of [[16, 16], [20, 0x1_0001], [24, 44_100], [28, 44_100], [32, 0x8_0001]] as const)
    bytes.writeUInt32LE(value, at); // prettier-ignore
  bytes.write('data', 36);
  bytes.writeUInt32LE(samples, 40);
  return new Uint8Array(bytes);
}
