import { onEveryBackend } from './backends.ts';
import { apiKeys } from './suites/api-keys.ts';

onEveryBackend(apiKeys);
