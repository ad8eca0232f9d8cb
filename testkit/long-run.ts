import { inject } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** Asks for the long form of the tests (vitest.config.ts). */
    long: boolean;
  }
}

/** Asks for the long forms. */
export const long: boolean =
  navigator.userAgent === 'Cloudflare-Workers' ? inject('long') : process.env['SEALPIN_LONG'] === '1';
