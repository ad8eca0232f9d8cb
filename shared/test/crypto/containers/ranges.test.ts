import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { ranges } from '../suites/ranges.ts';

onEveryProvider(ranges, { isSlowInWorkerd: true });
