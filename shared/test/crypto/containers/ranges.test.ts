import { onEveryBackend } from '../../../../testkit/backends.ts';
import { ranges } from '../suites/ranges.ts';

onEveryBackend(ranges, { isSlowInWorkerd: true });
