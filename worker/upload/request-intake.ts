/** Intake of the bytes of an upload that comes in one request. */
import type { Env } from '../env.ts';
import { firstBackendOf } from '../backends/configured.ts';
import type { Intake } from '../backends/contract.ts';
import { intakeOf } from '../objects/pin/stores/object-intake.ts';
import { uploadMs } from '../objects/pin/stores/object-rows.ts';
import type { PinBinding } from '../objects/pin/shard.ts';

/** The most objects of one request: each has a MiB, but for the last of each part of a CAR. */
const mostObjects = 100_000;

type Options = { account: string | undefined; uploadId: string; isForeign: boolean; requestId: string };

/** Makes the intake of a request at the first backend. */
export function requestIntake(env: Env & PinBinding, { account = '', requestId, ...upload }: Options): Intake {
  const backend = firstBackendOf(env, requestId);
  return intakeOf(env, backend, { account, ...upload, numbers: mostObjects, forMs: uploadMs });
}
