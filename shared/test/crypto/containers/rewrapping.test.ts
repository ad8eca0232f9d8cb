import { onEveryBackend } from '../../../../testkit/backends.ts';
import { rewrapping } from '../suites/rewrapping.ts';

onEveryBackend(rewrapping, { isSlowInWorkerd: true });
