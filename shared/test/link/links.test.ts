import { onEveryBackend } from '../../../testkit/backends.ts';
import { links } from './suites/links.ts';

onEveryBackend(links, { isSlowInWorkerd: true });
