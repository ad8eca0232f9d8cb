/** Sending files, by link or to an inbox: each has a key of its own, which a parcel has. */
import { stat } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { admit, deliver, isProvisional } from '../../client/inboxes.ts';
import { checkParcel, removeAt, type SentFile, type Words } from '../../client/sending.ts';
import { abandonMs } from '../../client/attempts.ts';
import { refuseTerms, shareParcel, type Shared } from '../../client/sharing.ts';
import {
  detachedPayloadBytes,
  encryptPayload,
  parseRecipients,
  type ParcelSigner,
  plaintextBytes,
  type Recipient,
} from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { leafBytes } from '../../shared/ipfs/index.ts';
import { parseLinkOf, type Parcel, type ParcelFile } from '../../shared/link/index.ts';
import type { Context } from '../context.ts';
import { type FilterValues, refuseIdleFilter } from '../folder/filter.ts';
import { type Input, modifiedOf } from '../io/input.ts';
import { parseName } from '../io/safe-name.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { api, type Api, authorizedService, introduction, refuseUnencrypted, sdkHttp } from '../remote/client.ts';
import { type Destination, limitsOf, refuseLarge } from '../store/limits.ts';
import { findService, type Service } from '../remote/service-choice.ts';
import { hasSpool } from '../store/spool.ts';
import { countText } from '../terminal/size.ts';
import { type Container, storeSealed, uploadIdOf } from '../store/store-sealed.ts';
import { forgetUpload, isWorthRetrying, withResumeHint } from '../store/upload-blob.ts';
import { openSource } from './seal.ts';
import { lifeHint, signerFor, type ShareTerms } from '../flags/share-terms.ts';
import { linkedKeyId } from './own-link.ts';
import { keepStored } from './sealed-names.ts';
import { sideBySide } from './side-by-side.ts';

/** Files and folders to send; a path `-` is standard input, received as `name`. */
type OutgoingPaths = {
  readonly paths: readonly string[];
  readonly name: string | undefined;
  /** Keeps the names out of the service. */
  readonly unnamed?: boolean;
  /** The parts of folders that are sent. */
  readonly filter: FilterValues;
};

/** Result of sending, with the number of bytes of plaintext. */
type SentResult<T> = T & { readonly files: readonly SentFile[]; readonly bytes: number };

/**
 * Sends files and folders by a link. When it breaks off, the same command continues.
 * @param terms asked for once the service is known to be there
 * @throws too_large, insufficient_scope, parcel_invalid, the codes of `openSource`,
 * `authorizedService`, `storeSealed` and `shareParcel`
 */
export async function sendFiles(
  outgoing: OutgoingPaths,
  terms: (service: Service) => Promise<ShareTerms>,
  context: Context,
): Promise<SentResult<Shared & { readonly service: Service; readonly terms: ShareTerms }>> {
  const service = await authorizedService(context);
  return storeAndPass(
    outgoing,
    {
      service,
      scopes: ['write', 'share'],
      async prepare({ shares, nowMs }) {
        const agreed = await terms(service);
        refuseTerms(shares, agreed, { nowMs: service.local ? context.now() : nowMs, hint: lifeHint });
        const { note, from, signer } = agreed;
        return { words: { note, from }, terms: agreed, signer };
      },
      async pass(parcel, files, { terms: agreed }) {
        const about = { parcel, files: files.map(({ fileId }) => fileId) };
        const shared = await makeShare(about, agreed, service, context);
        for (const [index, { size, ...file }] of files.entries()) {
          const kept = { ...file, bytes: detachedPayloadBytes(size), modified: parcel.files[index]?.modified };
          await keepStored(kept, service, context, outgoing);
        }
        return { ...shared, service, terms: agreed };
      },
    },
    context,
  );
}

/**
 * Hands files and folders over to the owner of an inbox. When it breaks off, the same command
 * continues.
 * @param o.link of the inbox, which has the API key: no account is needed
 * @throws link_invalid, usage for a link over http: to another machine, and as `sendFiles`
 */
export async function handOverFiles(
  outgoing: OutgoingPaths,
  o: Words & { readonly link: string; readonly sign: boolean },
  context: Context,
): Promise<SentResult<{ readonly service: Service }>> {
  const inbox = parseLinkOf(o.link, 'inbox').link;
  const { apiKey } = inbox;
  const url = new URL(inbox.service);
  refuseUnencrypted(url, 'the key of the inbox');
  const service: Service = { url, apiKey, keyFrom: 'the link of the inbox', local: false, gateways: [] };
  const recipients = parseRecipients(inbox.recipient, nodeProvider);
  return storeAndPass(
    outgoing,
    {
      service,
      scopes: ['write'],
      inbox: recipients,
      async prepare() {
        // The profile in use is for one service; another one learns nothing of it.
        const own = await findService(context);
        const profile = own.url?.origin === url.origin ? own.profile : undefined;
        return { words: { note: o.note, from: o.from }, signer: await signerFor(o.sign, profile, context) };
      },
      async pass(parcel, files, { isProvisional: areNamed, signer }) {
        const names = areNamed ? files.map(({ fileId }) => fileId) : undefined;
        await deliver(sdkHttp(service, context), parcel, {
          recipients,
          names,
          // Of the key in the link, whatever the service calls it.
          signing: signer && { signer, id: linkedKeyId(apiKey) },
          ...patient(context),
        });
        return { service };
      },
    },
    context,
  );
}

/** Has the service keep a parcel. Fails as `shareParcel`. */
export async function makeShare(
  about: { readonly parcel: Parcel; readonly files: readonly string[] },
  { recipients, signer, ...terms }: ShareTerms,
  service: Service,
  context: Context,
): Promise<Shared> {
  const { output, scryptLogN } = context;
  const derivation = terms.password === undefined ? undefined : output.progress('deriving the key from the password');
  const sealing = { recipients, signer, kdf: { name: 'scrypt', logN: scryptLogN }, provider: nodeProvider } as const;
  try {
    return await shareParcel(sdkHttp(service, context), about, { ...terms, ...patient(context) }, sealing);
  } catch (error) {
    if (!isSealpinError(error, 'invalid_request') || error.reason !== undefined) throw error;
    throw new SealpinError(error.code, error.message, { hint: lifeHint, cause: error });
  } finally {
    derivation?.done();
  }
}

/** The last request waits for a service that does not answer now, and says so once. */
function patient({ output, signal }: Context) {
  let isSaid = false;
  const onRetry = ({ message }: SealpinError): void => {
    if (!isSaid) output.note(`${message}; trying again`);
    isSaid = true;
  };
  return { signal, onRetry };
}

type ParcelWords = Pick<Parcel, 'note' | 'from'>;

type Passing<P, T> = {
  readonly service: Service;
  readonly scopes: readonly ('write' | 'share')[];
  /** Recipients that the parcel is sealed to, for an inbox. */
  readonly inbox?: readonly Recipient[];
  /** Called once the files and the service are known to be there, with what it says of itself. */
  readonly prepare: (health: Awaited<ReturnType<Api['health']>>) => Promise<P>;
  /** Gives the parcel to whom it is for. `isProvisional`: the files stay only if it names them. */
  readonly pass: (
    parcel: Parcel,
    files: readonly SentFile[],
    prepared: P & { readonly isProvisional: boolean },
  ) => Promise<T>;
};

/** Stores files and passes their parcel on; removes what cannot be continued after a failure. */
async function storeAndPass<P extends { readonly words: ParcelWords; readonly signer: ParcelSigner | undefined }, T>(
  { paths, name: standardInput, filter }: OutgoingPaths,
  { service, scopes, inbox, prepare, pass }: Passing<P, T>,
  context: Context,
): Promise<SentResult<T>> {
  const routes = api(service, context);
  const { health, key } = await introduction(routes);
  const limits = limitsOf(health);
  refuseKey(key.scopes, scopes);
  const provisional = inbox !== undefined && isProvisional(key, paths.length);
  const to: Destination = { service, routes, limits, keyId: key.id, provisional };
  const inputs: Input[] = [];
  const files: FileToSend[] = [];
  const stored: StoredPayload[] = [];
  let passed: SentResult<T>;
  try {
    for (const path of paths) {
      const input = await openSource(path, filter, context);
      inputs.push(input);
      const name = parseName(await receivedName(path, standardInput, context.cwd), path === '-' ? '--name' : path);
      const id = uploadIdOf(input, { ...to, path, kind: ['send'], context });
      // Who hands something over may not want to say when they had it.
      files.push({ path, input, id, name, modified: inbox === undefined ? modifiedOf(input) : undefined });
      refuseLarge(input.bytes === undefined ? undefined : detachedPayloadBytes(input.bytes), limits.fileBytes);
    }
    refuseIdleFilter(filter, inputs);
    const prepared = await prepare(health);
    const typed = files.map(({ name, modified }) => ({ name, type, modified }));
    const recipients = inbox?.flatMap(({ text = [] }) => text);
    const draft = checkParcel({ files: typed, ...prepared.words }, prepared.signer, recipients);
    for (const input of inputs) await input.lookThrough?.();
    if (inputs.some(({ lookThrough }) => lookThrough !== undefined))
      context.output.note('a folder arrives as a tar archive: sealpin receive --extract makes the folder again');
    if (inbox !== undefined) await admit(key, { payloads: unsentOf(files, context), parcel: draft }, inbox);
    const byIndex: StoredPayload[] = [];
    // What takes several requests keeps the connection busy by itself.
    const bytesOf = ({ input: { bytes } }: FileToSend): number | undefined =>
      bytes !== undefined && detachedPayloadBytes(bytes) <= (limits.requestBytes ?? Infinity) ? bytes : undefined;
    const transfer = async (file: FileToSend, index: number, own: Context): Promise<void> => {
      stored.push((byIndex[index] = await storeOne(file, to, own)));
    };
    await sideBySide(files, { bytesOf, label: sendingLabel, transfer }, context);
    const sent = byIndex.map(({ fileId, cid, name, size }) => ({ fileId, cid, name, size }));
    passed = {
      ...(await pass({ files: byIndex, ...prepared.words }, sent, { ...prepared, isProvisional: provisional })),
      files: sent,
      bytes: sent.reduce((sum, { size }) => sum + size, 0),
    };
  } catch (error) {
    throw await afterFailure(error, { files, stored, to }, context);
  } finally {
    for (const input of inputs) await input.close();
  }
  for (const { id } of files) await forgetUpload(id, context);
  return passed;
}

/**
 * The sizes of the payloads of which nothing is stored yet: what an earlier run began has its room.
 */
function unsentOf(files: readonly FileToSend[], { dataDir }: Context): (number | undefined)[] {
  const unsent = files.filter(({ id }) => !hasSpool(dataDir, id));
  return unsent.map(({ input: { bytes } }) => (bytes === undefined ? undefined : detachedPayloadBytes(bytes)));
}

const sendingLabel = 'encrypting and sending';
/** Files have the media type of any bytes: it is not known here. */
const type = 'application/octet-stream';

type FileToSend = {
  readonly path: string;
  readonly input: Input;
  readonly id: string;
  readonly name: string;
  readonly modified: Date | undefined;
};
type StoredPayload = SentFile & ParcelFile & { readonly id: string };

async function storeOne({ path, input, id, name, modified }: FileToSend, to: Destination, context: Context) {
  const { fileId, cid, size, fileKey } = await storeSealed(input, {
    ...to,
    id,
    path,
    encrypt: sealed,
    keep: true,
    label: sendingLabel,
    context,
  });
  const plainBytes = plaintextBytes(size);
  if (fileKey === undefined || plainBytes === undefined) throw new TypeError('a payload without its key or size');
  return { id, fileId, cid, name, type, size: plainBytes, fileKey, modified };
}

/** A payload without a header: only the parcel has its key. */
async function sealed({ stream, bytes, lookThrough }: Input): Promise<Container> {
  const expectedBytes = bytes ?? (await lookThrough?.());
  const sizeOf = (plain: number | undefined) => (plain === undefined ? undefined : detachedPayloadBytes(plain));
  // Pieces of one leaf of the CID, which the hashing takes without copying them together.
  const { payload, fileKey } = await encryptPayload(stream, { pieceBytes: leafBytes, provider: nodeProvider });
  return { stream: payload, bytes: sizeOf(bytes), expectedBytes: sizeOf(expectedBytes), fileKey };
}

/** Removes what was stored for nothing; what a later run continues stays, and that is said. */
async function afterFailure(
  failure: unknown,
  { files, stored, to }: { files: readonly FileToSend[]; stored: readonly StoredPayload[]; to: Destination },
  context: Context,
): Promise<unknown> {
  const { service, provisional = false } = to;
  const isWorthIt = isWorthRetrying(failure, context);
  const kept = new Set(files.map(({ id }) => id).filter((id) => hasSpool(context.dataDir, id)));
  const idle = stored.filter(({ id }) => !isWorthIt || !kept.has(id));
  const left = provisional || idle.length === 0 || (await didRemove(idle, service, context)) ? [] : idle;
  for (const { id } of idle) await forgetUpload(id, context);
  if (left.length > 0)
    context.output.warn(
      `nothing was sent; ${countText(left.length, 'file')} could not be removed again: nobody can open what was ` +
        `stored, and with the scope delete sealpin delete removes ${left.map(({ fileId }) => fileId).join(', ')}`,
    );
  if (isWorthIt && kept.size > 0) return withResumeHint(failure, context, provisional ? '24 hours' : '7 days');
  if (provisional && idle.length > 0)
    context.output.note('nothing was sent; the service removes what was stored within 24 hours');
  else if (context.signal.aborted && left.length === 0)
    context.output.note('nothing was sent: the same command begins again');
  return failure;
}

/** Removes what was stored, after an interruption, too. */
async function didRemove(stored: readonly StoredPayload[], service: Service, { timeouts }: Context): Promise<boolean> {
  const signal = AbortSignal.timeout(abandonMs);
  const fileIds = stored.map(({ fileId }) => fileId);
  return removeAt(sdkHttp(service, { signal, timeouts }), fileIds, signal).then(
    () => true,
    () => false,
  );
}

/** A service that refuses the share would have stored everything for nothing. */
function refuseKey(has: readonly string[], needs: readonly ('write' | 'share')[]): void {
  const missing = needs.find((scope) => !has.includes(scope));
  if (missing === undefined) return;
  const detail = `the API key may not ${missing === 'write' ? 'store files' : 'share'}`;
  const hint = 'use a key with the scopes write and share, such as: sealpin key create <label> --scopes write,share';
  throw new SealpinError('insufficient_scope', detail, { hint });
}

/** Returns the name under which the receiver gets a file. */
async function receivedName(path: string, given: string | undefined, cwd: string): Promise<string> {
  if (path === '-') return given ?? 'standard-input';
  const absolute = resolve(cwd, path);
  const isFolder = (await stat(absolute)).isDirectory();
  return isFolder ? `${basename(absolute)}.tar` : basename(absolute);
}
