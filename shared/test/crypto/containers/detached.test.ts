import { onEveryBackend } from '../../../../testkit/backends.ts';
import { detached } from '../suites/detached.ts';

onEveryBackend(detached);
