import { describe, test } from 'vitest';
import { containers, endings, passwordSealing } from './suites/containers.ts';
import { requestBodies } from './suites/request-bodies.ts';
import { sending } from './suites/sending.ts';
import { ci } from '../../testkit/long-run.ts';

// At full cost, and so in CI alone.
const slow = ci && navigator.userAgent !== 'Cloudflare-Workers' ? [passwordSealing] : [];
// Vitest fails the run at any rejection that nobody handles.
for (const suite of [containers, endings, requestBodies, sending, ...slow])
  describe(suite.name, () => suite({ test, note: () => undefined, long: false }));
