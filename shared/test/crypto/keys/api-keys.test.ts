import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { apiKeys } from '../suites/api-keys.ts';

onEveryProvider(apiKeys);
