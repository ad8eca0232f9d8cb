import { onEveryBackend } from './backends.ts';
import { golden } from './suites/golden.ts';

onEveryBackend(golden);
