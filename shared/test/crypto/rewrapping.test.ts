import { onEveryBackend } from './backends.ts';
import { rewrapping } from './suites/rewrapping.ts';

onEveryBackend(rewrapping);
