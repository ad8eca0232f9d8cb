import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { detached } from '../suites/detached.ts';

onEveryProvider(detached);
