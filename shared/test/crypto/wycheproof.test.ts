import { onEveryBackend } from './backends.ts';
import { wycheproof } from './suites/wycheproof.ts';

onEveryBackend(wycheproof);
