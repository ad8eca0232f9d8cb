/**
 * Takes the place of `shared/crypto/providers/curves.ts` in an engine that loads it at first use.
 * The script is loaded within the call that needs it, so that no caller has to know.
 */
import type * as Curves from '../../shared/crypto/providers/curves.ts';
import { SealpinError } from '../../shared/errors.ts';
import { trustAddresses } from '../trusted-addresses.ts';

/**
 * The build's: the name of the script, beside that of the engine; it has the hash of what the
 * engine was built with.
 */
declare const curvesAddress: string;
/** The script's only global. */
declare const curves: typeof Curves;

const trustedAddress = trustAddresses([curvesAddress], location.href);
let loaded: typeof Curves | undefined;

/** Loads the script, once. @throws SealpinError `service_unreachable` */
export function loadCurves(): typeof Curves {
  try {
    if (loaded === undefined) importScripts(trustedAddress(curvesAddress));
  } catch (cause) {
    throw new SealpinError('service_unreachable', 'a part of the page cannot be loaded', { cause });
  }
  return (loaded ??= curves);
}

function lazily<Name extends keyof typeof Curves>(name: Name): (typeof Curves)[Name] {
  return new Proxy({} as (typeof Curves)[Name], { get: (_, key) => Reflect.get(loadCurves()[name], key) as unknown });
}

export const x25519 = lazily('x25519');
export const p256 = lazily('p256');
export const ml_kem768_p256 = lazily('ml_kem768_p256');
export const ml_kem768_x25519 = lazily('ml_kem768_x25519');
