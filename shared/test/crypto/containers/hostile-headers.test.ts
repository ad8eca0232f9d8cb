import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { hostileHeaders } from '../suites/hostile-headers.ts';

onEveryProvider(hostileHeaders);
