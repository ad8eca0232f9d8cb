import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { hostilePayloads } from '../suites/hostile-payloads.ts';

onEveryProvider(hostilePayloads, { isSlowInWorkerd: true });
