import { onEveryBackend } from './backends.ts';
import { keys } from './suites/keys.ts';

onEveryBackend(keys);
