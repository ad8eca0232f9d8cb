import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { flow } from '../suites/flow.ts';

onEveryProvider(flow);
