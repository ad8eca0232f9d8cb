/**
 * `POST /v1/account/rotation`: another key pair for the account. What is sealed to the one before
 * is sealed to the new one by requests with an API key, which alone can open either.
 */
import { RotationRequest, type Rotation } from '../../../shared/api.ts';
import {
  decodePem,
  encodePublicKeyFile,
  generateKeyPair,
  openDetached,
  recipientFromSpki,
  sealPreviousKey,
  sealPrivateKey,
  searchTag,
  type Identity,
} from '../../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { equalBytes } from '../../../shared/streams/equal-bytes.ts';
import { identitiesOf, privateKeyOf, type Principal } from '../../auth/authenticate.ts';
import type { Ctx } from '../../http/app.ts';
import { readJson } from '../../http/json-body.ts';
import type { KeyMaterial } from '../../objects/account/keys/key-rows.ts';
import { newRecovery, parseRecoveryKey } from '../../objects/account/keys/recovery-file.ts';
import type { Behind, Rewrapped } from '../../objects/account/keys/rotation-rows.ts';
import { unwrap } from '../../objects/result.ts';
import { revokedView } from './account-view.ts';

/** The most headers of one request: some hundred milliseconds of the processor. */
const maxRewrapped = 200;

/** Begins a rotation of the pair that the request names, or continues it. */
export async function rotateAccount(c: Ctx, principal: Principal): Promise<Response> {
  const { account, key } = principal;
  const look = (limit: number) => unwrap(account.rotation.look(key.hash, limit));
  const before = await look(0);
  const given = parsePublicKey((await readJson(c.req.raw, RotationRequest)).publicKey);
  const isNew = before.previous === null && equalBytes(before.spki, given);
  const ended = isNew ? await beginRotation(principal, before) : undefined;
  const state = await look(maxRewrapped);
  if (state.replaced === null || !equalBytes(state.replaced, given))
    throw new SealpinError('conflict', equalBytes(state.spki, given) ? notDone : otherPair, { hint: whichPair });
  const rewrapped = state.previous === null ? [] : await rewrapAll(principal, state, state.files);
  const { remaining, taken } = await unwrap(account.rotation.rewrap(key.hash, state.spki, rewrapped));
  const unreadable = rewrapped.filter(({ fileId, tags }) => tags === undefined && taken.includes(fileId));
  return c.json<Rotation>({
    publicKey: encodePublicKeyFile(state.spki),
    done: remaining === 0,
    remaining,
    unreadable: unreadable.length === 0 ? undefined : unreadable.map(({ fileId }) => fileId),
    ...ended,
  });
}

const notDone = 'the rotation to this key pair is not done';
const otherPair = 'the account has another key pair by now';
const whichPair = 'GET /v1/account has the current public key, and while a rotation runs the one that it replaces';

function parsePublicKey(text: string): Uint8Array {
  const spki = decodePem('PUBLIC KEY', text);
  if (spki === undefined) throw new SealpinError('key_invalid', 'publicKey has no -----BEGIN PUBLIC KEY----- block');
  return spki;
}

/** Makes the new pair. @returns what ended with the other keys */
async function beginRotation(
  principal: Principal,
  { recoveryKey, ...material }: KeyMaterial & { recoveryKey: string | null },
): Promise<Pick<Rotation, 'revoked' | 'shares'>> {
  const { account, key } = principal;
  const pkcs8 = await privateKeyOf(principal, material);
  const next = await generateKeyPair();
  const sealed = await sealPrivateKey(key, { id: material.key.id, pkcs8: next.pkcs8, spki: next.spki });
  const recovery = recoveryKey === null ? null : await newRecovery(parseRecoveryKey(recoveryKey), next.pkcs8);
  const previous = await sealPreviousKey(pkcs8, next.spki);
  const change = { replaces: material.spki, spki: next.spki, sealed, previous, recovery };
  return revokedView(await unwrap(account.rotation.begin(key.hash, change)));
}

/** Seals headers and search tags to the current pair; a header that nobody opens is null. */
async function rewrapAll(principal: Principal, material: KeyMaterial, files: readonly Behind[]): Promise<Rewrapped[]> {
  const identities = await identitiesOf(principal, material);
  const pkcs8 = await privateKeyOf(principal, material);
  return await Promise.all(
    files.map(async ({ fileId, header, tags, version, rewrapped }): Promise<Rewrapped> => {
      const read = { fileId, version, rewrapped };
      const searched = (of: readonly string[]) => of.map((tag) => searchTag(pkcs8, tag));
      if (header === null) return { ...read, header, tags: searched(tags) };
      const opened = await openedHeader(fileId, header, identities);
      if (opened === undefined) return { ...read, header: null, tags: undefined };
      const sealed = await opened.rewrap(recipientFromSpki(material.spki));
      return { ...read, header: sealed, tags: searched(opened.file.tags ?? []) };
    }),
  );
}

/** Opens a header; undefined for one that is damaged: no key opens that, now or later. */
async function openedHeader(fileId: string, header: Uint8Array, identities: readonly Identity[]) {
  try {
    return await openDetached(header, { fileId, identities });
  } catch (error) {
    if (isSealpinError(error)) return undefined;
    throw error;
  }
}
