/** Time limits at backends: what they end has a code. */
import { globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { timeLimit } from '../../backends/time-limit.ts';

test('a limit ends what waits by pinning_timeout', async () => {
  const signal = timeLimit(1);
  await expect.poll(() => signal.aborted).toBe(true);
  expect(() => signal.throwIfAborted()).toThrowError(expect.objectContaining({ code: 'pinning_timeout' }));
});

test('nothing in the Worker waits for a limit without a code', () => {
  const files = globSync('worker/**/*.ts', { exclude: (path) => path === 'test' || path.endsWith('time-limit.ts') });
  expect(files.length).toBeGreaterThan(100);
  expect(files.filter((path) => readFileSync(path, 'utf8').includes('AbortSignal.timeout('))).toEqual([]);
});
