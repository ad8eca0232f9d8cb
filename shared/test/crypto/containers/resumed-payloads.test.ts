import { onEveryBackend } from '../../../../testkit/backends.ts';
import { resumedPayloads } from '../suites/resumed-payloads.ts';

onEveryBackend(resumedPayloads);
