import { onEveryBackend } from './backends.ts';
import { hostilePayloads } from './suites/hostile-payloads.ts';

onEveryBackend(hostilePayloads);
