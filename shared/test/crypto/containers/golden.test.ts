import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { golden } from '../suites/golden.ts';

onEveryProvider(golden);
