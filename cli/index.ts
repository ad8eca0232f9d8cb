#!/usr/bin/env node
/** The entry point in a checkout. */
import { begin } from './startup/begin.ts';

await begin(() => import('./startup/run-process.ts'));
