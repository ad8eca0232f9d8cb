import { onEveryProvider } from '../../../testkit/crypto-providers.ts';
import { parcels } from './suites/parcels.ts';

onEveryProvider(parcels, { isSlowInWorkerd: true });
