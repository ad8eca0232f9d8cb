import { onEveryBackend } from './backends.ts';
import { passwords } from './suites/passwords.ts';

onEveryBackend(passwords);
