import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { wycheproof } from '../suites/wycheproof.ts';

onEveryProvider(wycheproof);
