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
export const inCi = (ci ? test : Object.assign(left, { each: () => left, for: () => left })) as unknown as typeof test;

/** Stands for all tests that are left out: the closing lines name it once. */
function left(): void {
  test.skip('tests that only CI runs (SEALPIN_LONG=ci)');
}
