/** Pinning with a row that is written before, and committed afterwards. */
import { isSealpinError } from '../../shared/errors.ts';
import { orLog } from '../log.ts';
import type { Account } from '../objects/account/account.ts';
import type { PinPlan } from '../objects/pin/pin-ownership.ts';
import { unwrap } from '../objects/result.ts';
import type { Intake } from '../backends/contract.ts';
import { pinImported } from '../backends/import-root.ts';
import type { Part, SentPart } from './part-writer.ts';

/** The upload that parts belong to. */
export type PartOwner = {
  account: DurableObjectStub<Account>;
  /** The SHA-256 of the caller's API key, in hex. */
  hash: string;
  uploadId: string;
  service: Intake;
  /** The request that uploads, for the log. */
  requestId: string;
};

type PinOptions = {
  held?: Promise<void>;
  plan: PinPlan;
  withdraw(): Promise<unknown>;
  signal: AbortSignal;
  requestId: string;
};

/**
 * Pins what a service holds, unless it has our pin of it already. The rows that say so are written.
 * @param o.bytes below the CID
 * @param o.held resolves once the service has them; left out, it has
 * @param o.plan what `Pin` says about the pins that are there
 * @param o.withdraw undoes the rows. Called where it is known that nothing was pinned; otherwise
 * the service may still be about to pin it, and the sweep undoes them
 * @throws what `held`, and what `PinningService.pin` throws
 */
export async function pinPlanned(
  service: Intake,
  { cid, bytes }: Pick<Part, 'cid' | 'bytes'>,
  { held, plan, withdraw, signal, requestId }: PinOptions,
): Promise<void> {
  let isAsked = false;
  try {
    await held;
    isAsked = true;
    await pinImported(service, cid, { bytes, plan, signal, requestId });
  } catch (error) {
    const isMissing = isSealpinError(error) && error.reason === 'blob_unavailable';
    // It runs out by itself, so a failure here does not hide the error of the pin.
    if (!isAsked || isMissing) await orLog({ event: 'pin.withdraw', requestId }, withdraw);
    throw error;
  }
}

/**
 * Makes a part stay until the upload ends, once the service holds it.
 * @throws what the account and the service report
 */
export async function keepPart(
  { account, hash, uploadId, service, requestId }: PartOwner,
  { part, held, name }: SentPart,
  signal: AbortSignal,
): Promise<void> {
  // The row of its objects was there before, and one request ends the upload, or abandons them all.
  if (name !== undefined) return await held;
  const id = crypto.randomUUID();
  const plan = await unwrap(
    account.pending.intendPart(hash, { ...part, id, uploadId, service: service.id, requestId }),
  );
  await pinPlanned(service, part, { held, plan, withdraw: () => account.pending.withdrawPart(id), signal, requestId });
  await unwrap(account.pending.commitPart(hash, { id, uploadId }));
}
