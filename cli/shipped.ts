#!/usr/bin/env node
/** The entry point of what is shipped: beside it is the program, bundled. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { begin, type Program } from './startup/begin.ts';
import { keepCompiledCode } from './startup/compile-cache.ts';

void begin(() => {
  keepCompiledCode(process);
  return createRequire(import.meta.filename)(join(import.meta.dirname, 'command.cjs')) as Program;
});
