import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { resumedPayloads } from '../suites/resumed-payloads.ts';

onEveryProvider(resumedPayloads);
