import { expect, test } from 'vitest';
import { nearTests } from '../near-tests.ts';

const sources = new Map([
  ['cli/io/a.ts', ''],
  ['cli/b.ts', "import { a } from './io/a.ts';"],
  ['cli/test/far.test.ts', "import { near } from './near.test.ts';"],
  ['cli/test/near.test.ts', "import type {\n  B,\n} from '../b.ts';"],
  ['cli/test/helper.ts', "await import('../b.ts');"],
  ['cli/test/io/drawer.test.ts', "import '../helper.ts';"],
  ['cli/test/other.test.ts', "import { b } from 'b';"],
]);

test('tests near to a change come first, and those that import nothing of it are left out', () => {
  const near = ['cli/test/io/drawer.test.ts', 'cli/test/near.test.ts', 'cli/test/far.test.ts'];
  expect(nearTests(['cli/io/a.ts'], sources)).toEqual(near);
});

test('a test that changed is the nearest, and one that was deleted does not count', () => {
  expect(nearTests(['cli/test/far.test.ts', 'cli/test/gone.test.ts', 'cli/b.ts'], sources)).toEqual([
    'cli/test/far.test.ts',
    'cli/test/near.test.ts',
    'cli/test/io/drawer.test.ts',
  ]);
  expect(nearTests(['README.md'], sources)).toEqual([]);
});
