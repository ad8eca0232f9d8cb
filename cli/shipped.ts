#!/usr/bin/env node
/** The entry point of what is shipped: beside it is the program, bundled. */
import { join } from 'node:path';
import { begin, type Program } from './startup/begin.ts';
import { runCompiled } from './startup/compiled-code.ts';

void begin(() => runCompiled(join(import.meta.dirname, 'command.cjs')) as Program);
