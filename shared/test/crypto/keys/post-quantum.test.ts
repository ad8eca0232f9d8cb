import { onEveryBackend } from '../../../../testkit/backends.ts';
import { postQuantum } from '../suites/post-quantum.ts';

onEveryBackend(postQuantum);
