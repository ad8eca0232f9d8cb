import { onEveryBackend } from './backends.ts';
import { ranges } from './suites/ranges.ts';

onEveryBackend(ranges);
