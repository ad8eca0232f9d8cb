import { onEveryProvider } from '../../../testkit/crypto-providers.ts';
import { links } from './suites/links.ts';

onEveryProvider(links, { isSlowInWorkerd: true });
