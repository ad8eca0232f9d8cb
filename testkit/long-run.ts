import { inject } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** Whether the long form of the tests runs (vitest.config.ts). */
    long: boolean;
  }
}

/** Whether the long forms are to run. workerd does not have our process.env. */
export const isLongRun: boolean =
  navigator.userAgent === 'Cloudflare-Workers' ? inject('long') : process.env['SEALPIN_LONG'] === '1';
