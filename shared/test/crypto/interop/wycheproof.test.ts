import { onEveryBackend } from '../../../../testkit/backends.ts';
import { wycheproof } from '../suites/wycheproof.ts';

onEveryBackend(wycheproof);
