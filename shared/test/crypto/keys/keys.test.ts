import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { keys } from '../suites/keys.ts';

onEveryProvider(keys);
