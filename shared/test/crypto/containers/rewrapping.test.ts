import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { rewrapping } from '../suites/rewrapping.ts';

onEveryProvider(rewrapping, { isSlowInWorkerd: true });
