/** Trusted Types: the addresses that code may run from besides the script that asks for it. */

/** Part of Trusted Types (W3C) that is used, which not every browser has. */
type Factory = { createPolicy(name: string, rules: Policy): Policy };
type Policy = { createScriptURL(text: string): string };

/**
 * Makes the one policy of a page, or of a worker.
 * @param addresses those that it admits
 * @param base what they are relative to
 * @returns an address as `Worker`, `register` and `importScripts` take it under Trusted Types;
 * TypeError for any other
 */
export function trustAddresses<Address extends string>(
  addresses: readonly Address[],
  base: string,
): (address: Address) => string {
  const createScriptURL = (text: string): string => {
    if (!addresses.some((each) => each === text)) throw new TypeError('this address may not run');
    return new URL(text, base).href;
  };
  const { trustedTypes } = globalThis as { trustedTypes?: Factory };
  const policy = trustedTypes?.createPolicy('sealpin', { createScriptURL }) ?? { createScriptURL };
  return (address) => policy.createScriptURL(address);
}
