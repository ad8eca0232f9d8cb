import { onEveryBackend } from './backends.ts';
import { hostileHeaders } from './suites/hostile-headers.ts';

onEveryBackend(hostileHeaders);
