import { onEveryBackend } from '../../../../testkit/backends.ts';
import { passwords } from '../suites/passwords.ts';

onEveryBackend(passwords, { isSlowInWorkerd: true });
