import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { hpke } from '../suites/hpke.ts';

onEveryProvider(hpke);
