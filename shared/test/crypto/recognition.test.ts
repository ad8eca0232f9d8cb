import { onEveryBackend } from './backends.ts';
import { recognition } from './suites/recognition.ts';

onEveryBackend(recognition);
