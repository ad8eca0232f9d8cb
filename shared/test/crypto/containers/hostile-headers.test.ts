import { onEveryBackend } from '../../../../testkit/backends.ts';
import { hostileHeaders } from '../suites/hostile-headers.ts';

onEveryBackend(hostileHeaders);
