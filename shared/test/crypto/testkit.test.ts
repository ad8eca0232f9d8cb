import { onEveryBackend } from './backends.ts';
import { testkit } from './suites/testkit.ts';

onEveryBackend(testkit);
