import { onEveryBackend } from './backends.ts';
import { flow } from './suites/flow.ts';

onEveryBackend(flow);
