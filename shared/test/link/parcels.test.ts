import { onEveryBackend } from '../../../testkit/backends.ts';
import { parcels } from './suites/parcels.ts';

onEveryBackend(parcels, { isSlowInWorkerd: true });
