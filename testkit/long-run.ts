import { inject, test } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** `SEALPIN_LONG` (vitest.config.ts): the form of the tests that is asked for. */
    form: string;
  }
}

const form = navigator.userAgent === 'Cloudflare-Workers' ? inject('form') : process.env['SEALPIN_LONG'];

/** Asks for the long forms, some of which take hours. */
export const long: boolean = form === '1';

/** Asks for what CI runs, too: the short form leaves it out for its time. */
export const ci: boolean = long || form === 'ci';

/** Declares a test that the short form leaves out. */
export const inCi: typeof test = test.runIf(ci) as typeof test;
