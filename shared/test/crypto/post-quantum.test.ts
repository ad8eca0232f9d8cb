import { onEveryBackend } from './backends.ts';
import { postQuantum } from './suites/post-quantum.ts';

onEveryBackend(postQuantum);
