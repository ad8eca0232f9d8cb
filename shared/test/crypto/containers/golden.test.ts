import { onEveryBackend } from '../../../../testkit/backends.ts';
import { golden } from '../suites/golden.ts';

onEveryBackend(golden);
