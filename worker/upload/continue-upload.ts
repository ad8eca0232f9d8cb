/** One request that continues an upload, in a process that knows nothing of those before it. */
import {
  keyIdOf,
  recipientFromSpki,
  resumePayload,
  uploadSeal,
  type PayloadSealer,
  type UploadSeal,
} from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { leafBytes } from '../../shared/ipfs/index.ts';
import type { Principal } from '../auth/authenticate.ts';
import { maxFileBytes, uploadIdleMs, type Env } from '../env.ts';
import { leafMemory } from '../leaf-memory.ts';
import { unwrap } from '../objects/result.ts';
import type { Ending, UploadRecord } from '../objects/account/uploads/upload-rows.ts';
import { backendOf } from '../backends/configured.ts';
import type { Intake } from '../backends/contract.ts';
import { intakeOf } from '../objects/pin/stores/object-intake.ts';
import type { PinBinding } from '../objects/pin/shard.ts';
import { atServices } from '../backends/unavailable.ts';
import { checkBodyHeaders, expectEnd, withBody, type ArrivingBody } from './checked-body.ts';
import { withCurrentPair } from './current-pair.ts';
import { handedParts } from './handed-over.ts';
import { leafAnnouncer } from './leaf-announcer.ts';
import { encryptedLeaves, plainLeaves, recognize, type LeafSource, type LeafState } from './leaf-source.ts';
import { PartWriter, type SentPart } from './part-writer.ts';
import { pinPlanned } from './pin-planned.ts';
import { receiveLeaves } from './receive-leaves.ts';
import { parseMetadata } from '../http/tus-headers.ts';
import { withPermit, leafPermits } from './semaphore.ts';

/** The type of a file that its client does not tell (RFC 9110 section 8.3). */
const anyBytes = 'application/octet-stream';
/** Label under which the metadata are sealed. */
export const metadataLabel = 'metadata';

/** Returns the label under which the rest is sealed: it belongs to one offset. */
function restLabel(offset: number): string {
  return `rest ${offset}`;
}

/**
 * State of an upload. `cid`: of the file, once every byte has arrived. `isUnread`: the request was
 * handed over, and its body must come as it is.
 */
export type Continued = Pick<UploadRecord, 'state' | 'offset' | 'expiresAt' | 'cid'> & { isUnread?: true };

/**
 * Continues an upload.
 * @param request its body has bytes of the file; it may be without one
 * @param options.lease names the request
 * @param options.length of the file, where the client tells it now
 * @throws body_incomplete and body_timeout, once what counts of it is recorded; digest_mismatch,
 * too_large, offset_mismatch, upload_busy, upload_changed, cid_mismatch, gone, not_found, what the
 * pinning service reports
 */
export function continueUpload(
  env: Env & PinBinding,
  request: Request,
  caller: Principal,
  options: {
    uploadId: string;
    lease: string;
    offset: number;
    length: number | undefined;
    requestId: string;
    onArrival(bytes: number): void;
  },
): Promise<Continued> {
  return withPermit({ by: keyIdOf(caller.key.hash) }, async () => {
    const { uploadId, lease, offset, length, requestId, onArrival } = options;
    const { hash } = caller.key;
    const { uploads } = caller.account;
    const { upload, leaves, spki } = await unwrap(uploads.resume(hash, uploadId, { lease, offset, length }));
    const body = { env, request, room: (upload.length ?? maxFileBytes(env)) - upload.offset, onArrival };
    if (upload.state !== 'open') await withBody(body, expectEnd);
    else {
      const report = env.HANDOVERS?.get(request)?.report;
      // What is encrypted is made of bytes that are here.
      if (report !== undefined && upload.mode !== 'plain') return { ...upload, isUnread: true };
      if (report !== undefined) checkBodyHeaders(body);
      const announced = request.headers.get('Content-Length');
      const bytes = announced === null ? undefined : Number(announced);
      const service = intakeOf(env, backendOf(env, upload.service, requestId), {
        account: caller.account.name ?? '',
        uploadId,
        // Encrypted bytes are a little more.
        numbers: Math.ceil(((bytes ?? maxFileBytes(env)) / leafBytes) * 1.001) + 2,
        forMs: restingMs,
        isOngoing: leaves > 0,
      });
      const resumed = new ResumedUpload({ caller, upload, lease, spki, service, bytes, requestId });
      const receive = (body: ArrivingBody): Promise<number> => resumed.receive(env, body, leaves);
      const receiving = report
        ? resumed.receiveHanded(report, { leaves, idleMs: uploadIdleMs(env), onArrival })
        : withBody(body, receive);
      const arrived = await receiving.catch((error: unknown) => {
        resumed.stop.abort(error);
        throw atServices(error, [service.id]);
      });
      if (arrived !== upload.length) return { state: 'open', offset: arrived, expiresAt: resumed.expiresAt, cid: null };
    }
    const { cid } = await unwrap(uploads.finish(uploadId, requestId));
    return { state: 'finishing', offset: upload.length ?? offset, expiresAt: upload.expiresAt, cid };
  });
}

/** Time for which the objects of an upload may rest, in ms: a day longer than the upload. */
const restingMs = 8 * 86_400_000;

/**
 * Bytes of the whole leaves that so many bytes of a client make at least: a sealer holds back what
 * may be the last chunk.
 */
function leastLeafBytes({ mode, tail }: UploadRecord, bytes: number): number {
  const heldBack = mode === 'encrypted' ? sealedChunkBytes : 0;
  return Math.max(0, Math.floor((tail.length + bytes - heldBack) / leafBytes) * leafBytes);
}

/** Bytes of a chunk that is sealed as one. */
const sealedChunkBytes = 16_400;

type ResumedUploadOptions = {
  caller: Principal;
  upload: UploadRecord;
  lease: string;
  /** The account's public key. */
  spki: Uint8Array;
  service: Intake;
  /** Bytes that the request brings; undefined if it does not say. */
  bytes: number | undefined;
  requestId: string;
};

/** Makes the end of an upload for a public key of the account. */
type EndingTo = (spki: Uint8Array) => Promise<Ending>;

class ResumedUpload {
  readonly #options: ResumedUploadOptions;
  /** Ends the requests to the service. */
  readonly stop = new AbortController();
  /** Time at which the upload expires unless it is continued, in ms. */
  expiresAt: number;

  constructor(options: ResumedUploadOptions) {
    this.#options = options;
    this.expiresAt = options.upload.expiresAt;
  }

  /** Receives bytes. @returns how many bytes of the file have arrived */
  async receive(env: Env, body: ArrivingBody, leaves: number): Promise<number> {
    const { caller, upload, lease, service, bytes } = this.#options;
    const { uploadId, mode, offset, length, preamble } = upload;
    const seal = await uploadSeal(caller.key, { uploadId, preamble });
    const sealer = mode === 'encrypted' ? await resumedSealer(upload, seal) : undefined;
    const source: LeafSource =
      sealer === undefined
        ? plainLeaves({ ...upload, rest: new Uint8Array(0) }, leaves === 0)
        : encryptedLeaves(sealer);
    // Plain mode has no nonces that would repeat.
    const announcer =
      sealer === undefined
        ? undefined
        : leafAnnouncer(async (first, digests) => {
            await unwrap(caller.account.uploads.show(uploadId, lease, first, digests));
          });
    const { signal } = this.stop;
    return await receiveLeaves({
      body,
      source,
      writer: new PartWriter({
        service,
        signal,
        firstLeaf: leaves,
        isContinued: true,
        announcer,
        expected: bytes === undefined ? undefined : Math.floor(bytes / leafBytes),
        bytes: bytes === undefined ? undefined : leastLeafBytes(upload, bytes),
        now: Date.now,
      }),
      offset,
      leaves,
      length,
      maxBytes: maxFileBytes(env),
      announcer,
      save: async (part, take, isLast) =>
        await this.#save(seal, part, take, isLast ? await this.#ending(seal, sealer) : undefined),
      permits: leafPermits,
      now: Date.now,
    });
  }

  /**
   * Records what the process in front has received.
   * @returns how many bytes of the file have arrived
   */
  async receiveHanded(
    report: ReadableStream<Uint8Array>,
    o: { leaves: number; idleMs: number; onArrival(bytes: number): void },
  ): Promise<number> {
    const { caller, upload, service } = this.#options;
    const { uploadId, length, preamble } = upload;
    const seal = await uploadSeal(caller.key, { uploadId, preamble });
    const { signal } = this.stop;
    let { offset } = upload;
    let firstLeaf = o.leaves;
    for await (const { part, tail, head } of handedParts(report, { ...o, service: service.id, signal })) {
      const sent = part && { part: { ...part, firstLeaf }, held: Promise.resolve() };
      firstLeaf += (part?.bytes ?? 0) / leafBytes;
      offset = firstLeaf * leafBytes + tail.length;
      const beginning = o.leaves === 0 ? recognize(head) : upload.beginning;
      const state = { offset, rest: new Uint8Array(0), tail, beginning };
      const ending = offset === length ? await this.#ending(seal, undefined) : undefined;
      await this.#save(seal, sent, () => state, ending);
      o.onArrival(offset - upload.offset);
    }
    return offset;
  }

  /** Pins a part, with its row from before, and records how far the upload has come. */
  async #save(seal: UploadSeal, sent: SentPart | undefined, take: () => LeafState, ending: EndingTo | undefined) {
    const { caller, upload, lease, service, requestId } = this.#options;
    const { uploadId, mode } = upload;
    const { uploads, pending } = caller.account;
    const partId = sent && crypto.randomUUID();
    if (sent !== undefined && partId !== undefined) {
      const { part, held, name } = sent;
      // Objects have their row, and their name is known once they are stored.
      if (name !== undefined) await held;
      const row = { ...part, cid: name?.() ?? part.cid, id: partId, uploadId, service: service.id, requestId };
      const plan = await unwrap(pending.intendPart(caller.key.hash, row, lease));
      const withdraw = (): Promise<unknown> => pending.withdrawPart(partId);
      if (name === undefined)
        await pinPlanned(service, part, { held, plan, withdraw, signal: this.stop.signal, requestId });
    }
    const { offset, rest, tail, beginning } = take();
    const sealedRest = mode === 'plain' ? null : await seal.seal(rest, restLabel(offset));
    const committed = await withCurrentPair(this.#options.spki, async (spki) => {
      const commit = { offset, sealedRest, tail, beginning, partId, ending: await ending?.(spki), spki };
      return await unwrap(uploads.commit(caller.key.hash, uploadId, lease, commit));
    });
    this.expiresAt = committed.expiresAt;
  }

  /** Makes what finding and opening the file takes, while the API key is at hand. */
  async #ending(seal: UploadSeal, sealer: PayloadSealer | undefined): Promise<EndingTo> {
    const { upload } = this.#options;
    const { uploadId, length, sealedMetadata } = upload;
    const text = new TextDecoder().decode(await seal.open(sealedMetadata, metadataLabel));
    const { filename, contentType } = parseMetadata(text);
    // An earlier version took an empty name for none.
    const about = { filename: filename === '' ? null : filename, contentType: contentType ?? anyBytes };
    if (sealer === undefined) return async () => ({ ...about, header: null });
    const file = { ...about, size: length ?? 0 };
    return async (spki) => {
      const header = await sealer.header(recipientFromSpki(spki), uploadId, file);
      return { filename: null, contentType: null, header };
    };
  }
}

/**
 * The sealer of an upload, from what its row has.
 * @throws decrypt_failed where that is of another upload or key
 */
async function resumedSealer(upload: UploadRecord, seal: UploadSeal): Promise<PayloadSealer> {
  const { offset, preamble, sealedKey, sealedRest, tail } = upload;
  if (sealedKey === null) throw new SealpinError('internal', 'an encrypted upload has no file key');
  const fileKey = await seal.open(sealedKey);
  const rest = sealedRest === null ? new Uint8Array(0) : await seal.open(sealedRest, restLabel(offset));
  return await resumePayload(
    { fileKey, preamble },
    { offset, rest, tail },
    { pieceBytes: leafBytes, memory: leafMemory },
  );
}
