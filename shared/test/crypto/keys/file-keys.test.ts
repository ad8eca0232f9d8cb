import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { fileKeys } from '../suites/file-keys.ts';

onEveryProvider(fileKeys, { isSlowInWorkerd: true });
