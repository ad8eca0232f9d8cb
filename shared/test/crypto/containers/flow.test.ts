import { onEveryBackend } from '../../../../testkit/backends.ts';
import { flow } from '../suites/flow.ts';

onEveryBackend(flow);
