import { onEveryBackend } from '../../../../testkit/backends.ts';
import { hostileStanzas } from '../suites/hostile-stanzas.ts';

onEveryBackend(hostileStanzas);
