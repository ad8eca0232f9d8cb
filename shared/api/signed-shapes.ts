/** The claims of signed URLs. */
import * as v from 'valibot';
import { FileId, Positive } from './fields.ts';
import { Mode } from './files-shapes.ts';

/** Longest life of a signed URL, in seconds: 7 days. */
export const maxSignedSeconds = 7 * 86_400;

/** Names one URL among those of an API key. */
const Nonce = v.pipe(v.string(), v.regex(/^[ -~]{1,64}$/));

/**
 * `exp`, when it expires, and `iat`, which is ignored, in seconds since 1970 (RFC 7519 section
 * 4.1).
 */
const times = { exp: Positive, iat: v.optional(v.number()) };

/** A URL that reads a file. `jti`: once. */
const SignedDownload = v.strictObject({ method: v.literal('GET'), file: FileId, jti: v.optional(Nonce), ...times });

/** A URL that stores one file. `bytes`: the most that the body, and the file, may have. */
const SignedUpload = v.strictObject({
  method: v.literal('POST'),
  mode: Mode,
  bytes: v.optional(Positive),
  jti: Nonce,
  ...times,
});

export const SignedClaims = v.variant('method', [SignedDownload, SignedUpload]);
export type SignedClaims = v.InferOutput<typeof SignedClaims>;
