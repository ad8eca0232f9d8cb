import { onEveryProvider } from '../../../testkit/crypto-providers.ts';
import { details } from './suites/details.ts';

onEveryProvider(details);
