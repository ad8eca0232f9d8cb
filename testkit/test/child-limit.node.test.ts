/** Programs for which a test blocks its process. */
import { execFileSync, spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

/** A program that does not hear SIGTERM, for 30 s. */
const deaf = ['-e', 'process.on("SIGTERM", () => {}); console.log("up"); setTimeout(() => {}, 30_000)'];
const o = { timeout: 2_000, encoding: 'utf8' } as const;

test('one that does not hear SIGTERM is killed at its limit', () => {
  expect(spawnSync(process.execPath, deaf, o)).toMatchObject({ signal: 'SIGKILL', stdout: 'up\n' });
  expect(() => execFileSync(process.execPath, deaf, o)).toThrow(/ETIMEDOUT/);
});
