/** Replacing the key pair of an account: many requests, each of which may be repeated. */
import { Rotation } from '../shared/api.ts';
import { SealpinError } from '../shared/errors.ts';
import { accountOf } from './account-key.ts';
import { untilAnswered } from './attempts.ts';
import type { ServiceHttp } from './service-http.ts';

/**
 * An account after its key pair was replaced. `revoked`: the IDs of the API keys that ended,
 * `shares` those of their links, unless an earlier call had begun it; `unreadable`: the IDs of
 * files that neither pair opens, which stay as they are.
 */
export type RotatedAccount = {
  readonly publicKey: string;
  readonly revoked: readonly string[];
  readonly shares: readonly string[];
  readonly unreadable: readonly string[];
};

/** Answers in a row after which no file fewer is left: files that change meanwhile need some. */
const maxIdle = 100;

/** `onProgress` gets how many files are left. */
export type RotationOptions = {
  readonly onProgress?: ((remaining: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
};

/**
 * Replaces the key pair of the account, or completes what was begun. What fails for a while is
 * tried again.
 * @throws SealpinError `insufficient_scope`, `conflict`, and what the service refuses with
 */
export async function rotateAccount(
  http: ServiceHttp,
  { onProgress, signal }: RotationOptions,
): Promise<RotatedAccount> {
  const { account, rotation } = await accountOf(http, signal);
  const request = {
    method: 'POST',
    path: 'v1/account/rotation',
    content: { publicKey: rotation?.replaces ?? account.publicKey },
    signal,
  } as const;
  const answers: Rotation[] = [];
  let least = Infinity;
  let idle = 0;
  for (let last: Rotation | undefined; last?.done !== true;) {
    last = await untilAnswered(() => http.json(Rotation, request), { signal });
    answers.push(last);
    idle = last.remaining < least ? 0 : idle + 1;
    least = Math.min(least, last.remaining);
    if (idle > maxIdle)
      throw new SealpinError('service_answer', 'the rotation never ends: no file fewer is left after many requests');
    onProgress?.(last.remaining);
  }
  return {
    publicKey: answers.at(-1)?.publicKey ?? account.publicKey,
    revoked: answers.flatMap(({ revoked = [] }) => revoked),
    shares: answers.flatMap(({ shares = [] }) => shares.map(({ id }) => id)),
    unreadable: answers.flatMap(({ unreadable = [] }) => unreadable),
  };
}
