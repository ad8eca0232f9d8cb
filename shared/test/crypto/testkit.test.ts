import { onEveryProvider } from '../../../testkit/crypto-providers.ts';
import { testkit } from './suites/testkit.ts';

onEveryProvider(testkit, { isSlowInWorkerd: true });
