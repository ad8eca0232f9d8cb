import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { hostileStanzas } from '../suites/hostile-stanzas.ts';

onEveryProvider(hostileStanzas);
