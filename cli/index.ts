#!/usr/bin/env node
/** The entry point in a checkout. */
import { begin } from './begin.ts';

await begin(() => import('./run-process.ts'));
