import { onEveryBackend } from './backends.ts';
import { properties } from './suites/properties.ts';

onEveryBackend(properties);
