/** Intake of the end of an upload whose parts are stored. */
import { concat } from '../../../../shared/streams/concat.ts';
import type { Env } from '../../../env.ts';
import { backendOf } from '../../../backends/configured.ts';
import type { Intake } from '../../../backends/contract.ts';
import { uploadMs } from '../../pin/stores/object-rows.ts';
import { intakeOf } from '../../pin/stores/object-intake.ts';
import { objectsOf, parseObjectNames } from '../../pin/stores/object-names.ts';
import type { PinBinding } from '../../pin/shard.ts';
import type { PartRows } from './part-rows.ts';

type Options = { account: string; uploadId: string; parts: PartRows; requestId: string };

/** Makes an intake that knows the objects of the parts, where they are some. */
export function resumedIntake(env: Env & PinBinding, backend: string, o: Options): Intake {
  const { account, uploadId, requestId } = o;
  const parts = o.parts.pinned(uploadId);
  const objects = parts.flatMap(({ cid, bytes }) => {
    const names = parseObjectNames(cid);
    return names === undefined ? [] : objectsOf(names, bytes);
  });
  const before = { objects, digests: concat(...parts.map(({ digests }) => digests)) };
  return intakeOf(env, backendOf(env, backend, requestId), { account, uploadId, numbers: 1, forMs: uploadMs, before });
}
