import { onEveryBackend } from '../../../../testkit/backends.ts';
import { keys } from '../suites/keys.ts';

onEveryBackend(keys);
