import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { passwords } from '../suites/passwords.ts';

onEveryProvider(passwords, { isSlowInWorkerd: true });
