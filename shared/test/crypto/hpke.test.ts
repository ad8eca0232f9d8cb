import { onEveryBackend } from './backends.ts';
import { hpke } from './suites/hpke.ts';

onEveryBackend(hpke);
