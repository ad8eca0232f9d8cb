import { onEveryBackend } from '../../../../testkit/backends.ts';
import { hostilePayloads } from '../suites/hostile-payloads.ts';

onEveryBackend(hostilePayloads, { isSlowInWorkerd: true });
