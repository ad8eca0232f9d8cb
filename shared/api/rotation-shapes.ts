/** The wire shapes of replacing the key pair of an account. */
import * as v from 'valibot';
import { Count, FileId, KeyId } from './fields.ts';
import { EndedShare } from './shares-shapes.ts';

const PublicKey = v.pipe(
  v.string(),
  v.maxLength(4096),
  v.examples(['-----BEGIN PUBLIC KEY-----\n…\n-----END PUBLIC KEY-----\n']),
);

/** `publicKey`: that of the pair to be replaced, as `GET /v1/account` returns it. */
export const RotationRequest = v.strictObject({ publicKey: PublicKey });

/**
 * Progress of a rotation. `publicKey` is the new one; `remaining`: files that are still sealed to
 * the pair before; `unreadable`: files that neither pair opens, which stay as they are. `revoked`
 * and `shares`: the API keys and shares that this request ended.
 */
export const Rotation = v.object({
  publicKey: PublicKey,
  done: v.boolean(),
  remaining: Count,
  unreadable: v.optional(v.array(FileId)),
  revoked: v.optional(v.array(KeyId)),
  shares: v.optional(v.array(EndedShare)),
});
export type Rotation = v.InferOutput<typeof Rotation>;

/**
 * A rotation that is not done. `replaces`: the public key before; `previous`: its private key,
 * sealed to the new pair (base64).
 */
export const RunningRotation = v.object({
  replaces: PublicKey,
  remaining: Count,
  previous: v.pipe(v.string(), v.examples(['YWdlLWVuY3J5cHRpb24='])),
});
