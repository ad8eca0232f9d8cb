import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { postQuantum } from '../suites/post-quantum.ts';

onEveryProvider(postQuantum);
