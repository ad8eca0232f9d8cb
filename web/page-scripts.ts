/** The scripts that a page starts besides its own. */
import { trustAddresses } from './trusted-addresses.ts';

/** The build's: what is behind the `?` of the addresses of engines, which caches keep for good. */
declare const scriptVersions: Readonly<Record<'web/engine.js' | 'web/sealing-engine.js', string>>;

const scripts = {
  receiving: `web/engine.js?${scriptVersions['web/engine.js']}`,
  sending: `web/sealing-engine.js?${scriptVersions['web/sealing-engine.js']}`,
  downloads: 'dl/sw.js',
} as const;
export type PageScript = keyof typeof scripts;

const admit = trustAddresses(Object.values(scripts), document.baseURI);

/** The address of a script. */
export const trustedAddress = (name: PageScript): string => admit(scripts[name]);
