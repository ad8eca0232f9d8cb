import { onEveryBackend } from '../../../testkit/backends.ts';
import { details } from './suites/details.ts';

onEveryBackend(details);
