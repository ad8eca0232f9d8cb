import { onEveryBackend } from './backends.ts';
import { containers } from './suites/containers.ts';

onEveryBackend(containers);
