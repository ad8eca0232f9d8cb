import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { recognition } from '../suites/recognition.ts';

onEveryProvider(recognition);
