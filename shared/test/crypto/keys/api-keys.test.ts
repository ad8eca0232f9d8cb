import { onEveryBackend } from '../../../../testkit/backends.ts';
import { apiKeys } from '../suites/api-keys.ts';

onEveryBackend(apiKeys);
