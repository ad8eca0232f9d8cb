import { onEveryBackend } from '../../../../testkit/backends.ts';
import { containers } from '../suites/containers.ts';

onEveryBackend(containers);
