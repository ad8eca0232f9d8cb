/**
 * Callers with `exactOptionalPropertyTypes` pass on what they may not have:
 * `connect({ service, apiKey: process.env['KEY'] })`. The types are what is tested; `npm run check`
 * looks at them.
 */
import { expect, test } from 'vitest';
import type * as crypto from '../../shared/crypto/index.ts';
import type * as ipfs from '../../shared/ipfs/index.ts';
import type * as sdk from '../index.ts';

/** Types that are no set of options, or have members that others have named. */
type Opaque =
  | string
  | number
  | boolean
  | null
  | undefined
  | Uint8Array
  | ArrayBuffer
  | Blob
  | Response
  | ReadableStream
  | AsyncIterable<unknown>
  | Date
  | URL
  | AbortSignal
  | readonly unknown[]
  | crypto.Identity
  | crypto.Recipient
  | ((...args: never[]) => unknown);

/** The members that may be left out, and may not be undefined. */
type Strict<T> = T extends Opaque
  ? never
  : {
      [K in keyof T & string]-?: object extends Pick<T, K>
        ? { [P in K]: undefined } extends Pick<T, K>
          ? never
          : K
        : never;
    }[keyof T & string];

/** The same in the options of a function, and one level below. */
type StrictOf<F> = F extends (...args: infer A) => unknown ? Strict<A[number]> | Below<A[number]> : never;
type Below<T> = T extends Opaque ? never : { [K in keyof T]-?: Strict<T[K]> }[keyof T];

/** The names of the functions of which that is so. */
type StrictIn<M> = { [K in keyof M]-?: StrictOf<M[K]> extends never ? never : K }[keyof M];

/** Compiles for no names only; the names of others are in the error. */
type None<Names extends never> = Names;
const found: [
  None<StrictIn<typeof sdk>>?,
  None<StrictIn<sdk.Connection>>?,
  None<StrictIn<sdk.Inboxes>>?,
  None<StrictIn<sdk.ReceivedFile>>?,
  None<StrictIn<typeof crypto>>?,
  None<StrictIn<typeof ipfs>>?,
] = [];
/** As it is written in the manual. */
const key = (apiKey: string | undefined): Parameters<typeof sdk.connect>[0] => ({
  service: 'https://s.example',
  apiKey,
});

test('an option that may be left out may be undefined', () => {
  expect(found).toEqual([]);
  expect(key(undefined)).toMatchObject({ service: 'https://s.example' });
});
