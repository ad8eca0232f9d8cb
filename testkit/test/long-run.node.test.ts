/** The forms of the tests: what the short form leaves out, CI runs. */
import { readFile } from 'node:fs/promises';
import { expect, test, vi } from 'vitest';
import type * as Forms from '../long-run.ts';
import { present } from '../present.ts';

/** Loads the module again, with a value of `SEALPIN_LONG`. */
async function formsOf(value: string): Promise<{ ci: boolean; long: boolean }> {
  const path = `../long-run.ts?form=${value}`;
  vi.stubEnv('SEALPIN_LONG', value);
  const { ci, long } = (await import(path)) as typeof Forms;
  vi.unstubAllEnvs();
  return { ci, long };
}

test('CI asks for what the short form leaves out, and test:long for all', async () => {
  const asked = async (path: string): Promise<string> => {
    const text = await readFile(new URL(`../../${path}`, import.meta.url), 'utf8');
    return present(/SEALPIN_LONG=(\w+) npm test/.exec(text)?.[1]);
  };
  expect(await formsOf(await asked('.ci/run'))).toEqual({ ci: true, long: false });
  expect(await formsOf(await asked('package.json'))).toEqual({ ci: true, long: true });
  expect(await formsOf('')).toEqual({ ci: false, long: false });
});
