/** Pinning with a row from before: the row is written, then the service is asked, then the row is committed. */
import type { Account } from '../objects/account.ts';
import type { PinPlan } from '../objects/pin.ts';
import { unwrap } from '../objects/result.ts';
import type { PinningService } from '../pinning/contract.ts';
import type { Part } from './part-writer.ts';

/** The upload that parts belong to. */
export type PartOwner = {
  account: DurableObjectStub<Account>;
  /** The SHA-256 of the caller's API key, in hex. */
  hash: string;
  uploadId: string;
  service: PinningService;
};

/**
 * Pins what a service holds, unless it has our pin of it already.
 * @param o.bytes below the CID
 * @param plan what `Pin` says about the pins that are there
 * @throws what `PinningService.pin` throws
 */
export async function pinPlanned(
  service: PinningService,
  { cid, bytes }: { cid: string; bytes: number },
  { beside, pinned }: PinPlan,
  signal: AbortSignal,
): Promise<void> {
  if (!pinned) await service.pin(cid, { bytes, beside, signal });
}

/** Makes a part stay until the upload ends. @throws what the account and the service report */
export async function keepPart(
  { account, hash, uploadId, service }: PartOwner,
  part: Part,
  signal: AbortSignal,
): Promise<void> {
  const id = crypto.randomUUID();
  const plan = await unwrap(account.intendPart(hash, { ...part, id, uploadId, service: service.id }));
  await pinPlanned(service, part, plan, signal);
  await unwrap(account.commitPart(hash, { id, uploadId }));
}
