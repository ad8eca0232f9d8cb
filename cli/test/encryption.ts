/** One encryption to a service of the test's own. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run, temporaryDirectory, type Overrides, type Ran } from './environment.ts';
import { someApiKey } from './hostile.ts';

/** Variables that let a command store an encrypted file without a question. */
export const env = { SEALPIN_API_KEY: someApiKey, SEALPIN_PASSWORD: 'correct horse battery staple' };

/**
 * Encrypts a file in a new directory, to the service at this URL or to the one that the command
 * finds.
 */
export async function encryptTo(
  url: string | undefined,
  overrides: Overrides = {},
  file = 'plain text',
): Promise<Ran & { directory: string }> {
  const directory = await temporaryDirectory();
  await writeFile(join(directory, 'in'), file);
  const service = url === undefined ? [] : ['--service', url];
  return {
    ...(await run(['encrypt', 'in', '--data-dir', directory, ...service], directory, { env, ...overrides })),
    directory,
  };
}
