import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { containers } from '../suites/containers.ts';

onEveryProvider(containers);
