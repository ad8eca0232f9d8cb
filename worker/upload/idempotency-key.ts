/** `Idempotency-Key` on uploads: what makes a second request the same as the first one. */
import { keyIdOf, type ApiKey } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Ctx } from '../http/app.ts';

const maxChars = 255;

/** Description of an upload: requests that differ in it are different uploads. */
export type Description = {
  headers: readonly string[];
  /** Set if the length of the body counts, where both requests tell it. */
  bodyLength: boolean;
};

const inOneRequest: Description = {
  headers: ['Content-Type', 'Content-Disposition', 'Content-Digest'],
  bodyLength: true,
};

/**
 * The claim of an upload. Name and parameters are hashed with a key that is derived from the API
 * key, so that the record reveals nothing to others; the body is not part of it.
 * @returns undefined where the request has no Idempotency-Key
 * @throws invalid_request
 */
export async function parseClaim(c: Ctx, key: ApiKey, { headers, bodyLength }: Description = inOneRequest) {
  const name = c.req.header('Idempotency-Key');
  if (name === undefined) return undefined;
  if (name.length < 1 || name.length > maxChars || !/^[ -~]+$/.test(name))
    throw new SealpinError('invalid_request', `Idempotency-Key has 1 to ${maxChars} characters of ASCII`);
  const { search } = new URL(c.req.url);
  const mac = await macWith(key);
  const described = headers.map((header) => c.req.header(header) ?? '');
  const digest = c.req.header('Repr-Digest');
  // Older versions have claims without it.
  const parameters = await mac([name, search, ...described, ...(digest === undefined ? [] : [digest])]);
  const length = bodyLength ? c.req.header('Content-Length') : undefined;
  return {
    apiKey: keyIdOf(key.hash),
    route: `${c.req.method} ${c.req.path}`,
    name: await mac([name]),
    fingerprint: `${parameters}.${length === undefined ? '' : await mac([name, 'length', length])}`,
  };
}

/**
 * Reasons why requests that create something cannot be repeated, and the place of what a lost
 * response has made.
 */
const unrepeatable = {
  key: [
    'the answer shows an API key, which is stored nowhere and cannot be shown again',
    'key that GET /v1/keys lists',
  ],
  share: ['each request makes a share of its own', 'share that GET /v1/shares lists'],
} as const;

/**
 * Refuses `Idempotency-Key` where a second request cannot get the response to the first one.
 * @param made what the request makes
 * @throws invalid_request
 */
export function refuseIdempotencyKey(c: Ctx, made: keyof typeof unrepeatable = 'key'): void {
  if (c.req.header('Idempotency-Key') === undefined) return;
  const [reason, found] = unrepeatable[made];
  throw new SealpinError('invalid_request', `Idempotency-Key does not work here: ${reason}`, {
    hint: `leave the header out; if an answer is lost, revoke the ${found}`,
  });
}

async function macWith(key: ApiKey): Promise<(parts: readonly string[]) => Promise<string>> {
  const encoder = new TextEncoder();
  const secret = await crypto.subtle.importKey('raw', key.secret, 'HKDF', false, ['deriveKey']);
  const derived = await crypto.subtle.deriveKey(
    { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(0), info: encoder.encode('sealpin/v1 idempotency') },
    secret,
    { name: 'HMAC', hash: 'SHA-256', length: 256 },
    false,
    ['sign'],
  );
  // As JSON, so that no two lists of parts are the same text.
  return async (parts) =>
    new Uint8Array(await crypto.subtle.sign('HMAC', derived, encoder.encode(JSON.stringify(parts)))).toHex();
}
