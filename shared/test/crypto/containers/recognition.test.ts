import { onEveryBackend } from '../../../../testkit/backends.ts';
import { recognition } from '../suites/recognition.ts';

onEveryBackend(recognition);
