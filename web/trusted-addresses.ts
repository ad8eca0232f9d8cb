/** The two addresses that a page runs code from besides its own script; Trusted Types admit no other. */

/** What is used of Trusted Types (W3C), which not every browser has. */
type Factory = {
  createPolicy(
    name: string,
    rules: { createScriptURL(text: string): string },
  ): { createScriptURL(text: string): string };
};

const addresses = ['web/engine.js', 'dl/sw.js'] as const;

function resolve(text: string): string {
  if (!addresses.some((each) => each === text)) throw new TypeError('this address may not run');
  return new URL(text, document.baseURI).href;
}

const policy = (globalThis as { trustedTypes?: Factory }).trustedTypes?.createPolicy('sealpin', {
  createScriptURL: resolve,
}) ?? { createScriptURL: resolve };

/** The address of a script, as `Worker` and `register` take it under Trusted Types. @param text relative to the root of the service */
export function trustedAddress(text: (typeof addresses)[number]): string {
  return policy.createScriptURL(text);
}
