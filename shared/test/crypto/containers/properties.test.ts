import { onEveryBackend } from '../../../../testkit/backends.ts';
import { properties } from '../suites/properties.ts';

onEveryBackend(properties, { isSlowInWorkerd: true });
