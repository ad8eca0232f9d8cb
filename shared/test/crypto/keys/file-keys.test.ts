import { onEveryBackend } from '../../../../testkit/backends.ts';
import { fileKeys } from '../suites/file-keys.ts';

onEveryBackend(fileKeys, { isSlowInWorkerd: true });
