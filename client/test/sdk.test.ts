import { describe, test } from 'vitest';
import { containers, endings, passwordSealing } from './suites/containers.ts';
import { requestBodies } from './suites/request-bodies.ts';
import { sending } from './suites/sending.ts';

const isWorkerd = navigator.userAgent === 'Cloudflare-Workers';
// Vitest fails the run at any rejection that nobody handles.
for (const suite of [containers, endings, requestBodies, sending, ...(isWorkerd ? [] : [passwordSealing])])
  describe(suite.name, () => suite({ test, note: () => undefined, long: false }));
