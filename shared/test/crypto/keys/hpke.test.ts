import { onEveryBackend } from '../../../../testkit/backends.ts';
import { hpke } from '../suites/hpke.ts';

onEveryBackend(hpke);
