import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { properties } from '../suites/properties.ts';

onEveryProvider(properties, { isSlowInWorkerd: true });
