/**
 * Input of `open.html`: a container, a CAR, or the folder of a backup (docs/backups.md). All
 * is read from the disk when it is saved, and nothing is fetched.
 */
import { inspect } from '../../client/containers.ts';
import { identitiesOf, type Credentials } from '../../client/credentials.ts';
import {
  fileKeyOf,
  open,
  openContainerHeader,
  openWithFileKey,
  parseIdentities,
  plaintextBytes,
  type Identity,
} from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { cleanFilename } from '../../shared/filename.ts';
import { carReader, cidFromBytes, fileFromCar, rootsOf } from '../../shared/ipfs/index.ts';
import { cancelQuietly } from '../../shared/streams/cancel-quietly.ts';
import { readAll } from '../../shared/streams/read-all.ts';
import { bytesOfBase64 } from '../../client/web-bytes.ts';

/** A file that can be saved. `most`: it has no more bytes. `isSealed`: it is itself a container. */
export type SavableFile = {
  readonly name: string;
  readonly most: number;
  /** Its bytes, as the record of a backup says. */
  readonly size?: number | undefined;
  readonly isSealed: boolean;
  open(): Promise<ReadableStream<Uint8Array>>;
};

/** Something that was chosen, and what opens it; undefined: nothing is needed. */
export type Chosen = {
  readonly kind: 'file' | 'backup';
  readonly needs: 'password' | 'keys' | undefined;
  /** Opens it. `unreadable`: files of a backup that cannot be read. */
  open(credentials: Credentials | undefined): Promise<{ files: readonly SavableFile[]; unreadable: number }>;
};

/** The most bytes of a record, and of a key file, as `rescue.py` takes them. */
const maxRecordBytes = 4 * 1024 * 1024;

/**
 * Looks at what was chosen.
 * @throws SealpinError `not_encrypted`, `wrong_kind`, `content_mismatch`
 */
export async function lookAtChosen(files: readonly File[]): Promise<Chosen> {
  const [file] = files;
  const about = files.find(({ name }) => name === 'backup.json');
  if (about !== undefined) return lookAtBackup(about, files);
  if (file === undefined || files.length > 1) throw new SealpinError('not_encrypted', 'the folder is no backup');
  const { read, isCar } = await storedIn(file);
  const found = await inspect(await read());
  const name = file.name.replace(isCar ? /\.car$/i : /\.(?:age|sealpin|asc)$/i, '') || 'file';
  if ('opens' in found)
    return {
      kind: 'file',
      needs: found.opens,
      async open(credentials) {
        if (credentials === undefined) throw new SealpinError('wrong_kind');
        const fileKey = await fileKeyOf(await read(), { identities: identitiesOf(credentials) });
        const opening = async () => openWithFileKey(await read(), { fileKey });
        return { files: [{ name, most: file.size, isSealed: false, open: opening }], unreadable: 0 };
      },
    };
  if (found.kind === 'detached') throw new SealpinError('wrong_kind');
  if (!isCar) throw new SealpinError('not_encrypted');
  const plain = { name, most: file.size, isSealed: false, open: read };
  return { kind: 'file', needs: undefined, open: async () => ({ files: [plain], unreadable: 0 }) };
}

/** The stored bytes of a file: those of the blob in it, verified, where it is a CAR. */
async function storedIn(file: File): Promise<{ isCar: boolean; read(): Promise<ReadableStream<Uint8Array>> }> {
  const start = new Uint8Array(await file.slice(0, 16).arrayBuffer());
  const isCar = /^[^]{1,2}\u00a2eroots/.test(String.fromCharCode(...start));
  if (!isCar) return { isCar, read: async () => file.stream() };
  const reader = carReader(file.stream());
  const header = await reader.header();
  await cancelQuietly(reader);
  const [root] = rootsOf(header) ?? [];
  const cid = root && cidFromBytes(root);
  if (cid === undefined) throw new SealpinError('content_mismatch', 'the CAR has no root of a known kind');
  return { isCar, read: async () => fileFromCar(cid.text, file.stream()) };
}

async function lookAtBackup(about: File, files: readonly File[]): Promise<Chosen> {
  const root = about.webkitRelativePath.slice(0, -'backup.json'.length);
  const inFolder = new Map(files.map((file) => [file.webkitRelativePath, file]));
  const { v } = (await jsonInFile(about)) as { v?: unknown };
  if (v !== 1) throw new SealpinError('unsupported_version');
  const key = inFolder.get(`${root}account.key`);
  if (key === undefined) throw new SealpinError('not_found', 'the backup has no account.key');
  return {
    kind: 'backup',
    needs: 'password',
    async open(credentials) {
      if (credentials === undefined) throw new SealpinError('wrong_kind');
      const opened = await open(key.slice(0, maxRecordBytes).stream());
      if (!('decrypt' in opened)) throw new SealpinError('not_encrypted');
      const identities = parseIdentities(await textOf(await opened.decrypt(identitiesOf(credentials))));
      const found: SavableFile[] = [];
      let unreadable = 0;
      for (const [path, record] of inFolder) {
        if (!path.startsWith(`${root}files/`) || !path.endsWith('.json')) continue;
        const fileId = path.slice(`${root}files/`.length, -'.json'.length);
        const carOf = (cid: string) => inFolder.get(`${root}blobs/${cid}.car`);
        const file = await fileOf(record, fileId, identities, carOf).catch(() => undefined);
        if (file === undefined) unreadable += 1;
        else found.push(file);
      }
      return { files: found.toSorted((a, b) => a.name.localeCompare(b.name)), unreadable };
    },
  };
}

/** Opens the record of a file in a backup, whose path names the file. */
async function fileOf(
  record: File,
  fileId: string,
  identities: readonly Identity[],
  carOf: (cid: string) => File | undefined,
): Promise<SavableFile> {
  type Entry = Partial<Record<'fileId' | 'cid' | 'header' | 'sealed', string> & { v: number; bytes: number }>;
  const entry = (await jsonInFile(record)) as Entry;
  const { cid = '', bytes } = entry;
  const car = carOf(cid);
  if (car === undefined || entry.v !== 1 || entry.fileId !== fileId)
    throw new SealpinError('not_found', 'the record is damaged, or its blob is missing');
  // The root in the CAR may be that of another blob.
  const read = async () => fileFromCar(cid, car.stream());
  const most = car.size;
  if (entry.header !== undefined) {
    const { fileKey, file } = await openContainerHeader(streamOfText(entry.header), { fileId, identities });
    const opening = async () => openWithFileKey(await read(), { fileKey });
    const size = bytes === undefined ? undefined : plaintextBytes(bytes);
    return { name: nameFor(file.filename ?? undefined, fileId), most, size, isSealed: false, open: opening };
  }
  const opened = await open(streamOfText(entry.sealed ?? ''));
  if (!('decrypt' in opened)) throw new SealpinError('container_invalid');
  type Details = { filename?: string | null; name?: string };
  const details = JSON.parse(await textOf(await opened.decrypt(identities))) as Details;
  // What the command line encrypted is stored as it is: the second step is its own password or key.
  const inside = await inspect(await read());
  const isSealed = inside.kind === 'age' || inside.kind === 'sealpin';
  const name = nameFor(details.filename ?? details.name, fileId);
  return { name: isSealed ? `${name}.${inside.kind}` : name, most, size: bytes, isSealed, open: read };
}

/** The name to save a file under: its ID where the name is one that no file may have. */
function nameFor(name: string | undefined, fileId: string): string {
  try {
    return cleanFilename(name ?? fileId);
  } catch {
    return fileId;
  }
}

async function jsonInFile(file: File): Promise<unknown> {
  try {
    return JSON.parse(await file.text());
  } catch {
    throw new SealpinError('container_invalid');
  }
}

async function textOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  return new TextDecoder().decode(await readAll(stream, maxRecordBytes, () => new SealpinError('container_invalid')));
}

function streamOfText(base64: string): ReadableStream<Uint8Array> {
  return new Blob([bytesOfBase64(base64)]).stream();
}
