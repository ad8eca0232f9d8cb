import { onEveryBackend } from '../../../testkit/backends.ts';
import { testkit } from './suites/testkit.ts';

onEveryBackend(testkit, { isSlowInWorkerd: true });
