import { onEveryBackend } from './backends.ts';
import { detached } from './suites/detached.ts';

onEveryBackend(detached);
