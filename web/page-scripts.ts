/** The scripts that a page starts besides its own. */
import { trustAddresses } from './trusted-addresses.ts';

const scripts = ['web/engine.js', 'web/sealing-engine.js', 'dl/sw.js'] as const;
export type PageScript = (typeof scripts)[number];

/** The address of a script, which is named relative to the root of the service. */
export const trustedAddress = trustAddresses<PageScript>(scripts, document.baseURI);
