/** A process ends, and sets its flags, also while V8 compiles code. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { long } from '../../../testkit/long-run.ts';
import { temporaryDirectory } from '../environment.ts';

/**
 * Has 200 functions compiled, beside buffers that V8 counts as part of its heap, and ends at any
 * moment of that.
 */
const program = `
const { setV8Flags } = require(${JSON.stringify(join(import.meta.dirname, '../../startup/v8-flags.ts'))});
setV8Flags();
const kept = Array.from({ length: 20 }, () => Buffer.allocUnsafeSlow(2 ** 20));
const names = Array.from({ length: 200 }, (_, k) => \`f\${k}\`);
const source = names.map((name, k) => \`function \${name}(a) {
  let s = 0; const o = { x: a, y: \${k} };
  for (let i = 0; i < 50; i++) { s += o.x * i % \${k + 3}; if (s > \${k * 7}) s -= o.y; o.x = s; }
  return [s, o.y].map((v) => v + \${k}).join('-').length;
}\`);
const functions = new Function(\`\${source.join('\\n')}\\nreturn [\${names.join()}];\`)();
const rounds = 20 + Math.floor(Math.random() * 600);
let sum = 0;
for (let r = 0; r < rounds; r++) for (const each of functions) sum += each(r);
process.exit(sum > 0 ? 0 : kept.length);
`;

/** Sets the flags while 300 functions are compiled, and takes them back, again and again. */
const setting = `
const { setV8Flags } = require(${JSON.stringify(join(import.meta.dirname, '../../startup/v8-flags.ts'))});
const { setFlagsFromString } = require('node:v8');
const taken = ['concurrent-sparkplug', 'maglev', 'maglev-build-code-on-background', 'maglev-deopt-data-on-background'];
let sum = 0;
for (let time = 0; time < 40; time++) {
  const functions = Array.from({ length: 300 }, (_, k) => new Function('a', \`let s = \${time};
    for (let i = 0; i < 40; i++) { s = (s + a * \${k} + (i ^ a)) | 0; if (s > 1e9) s -= \${k}; }
    return s + [a, s].length\`));
  for (let r = 0; r < 30 + (time % 8) * 10; r++) for (const each of functions) sum += each(r);
  setV8Flags();
  for (let r = 0; r < 20; r++) for (const each of functions) sum += each(r);
  for (const name of time < 39 ? taken : []) setFlagsFromString(\`--\${name}\`);
}
setTimeout(() => process.exit(sum === 0 ? 1 : 0), 300);
`;

/**
 * Without our flags, one run in ten never ended; with flags of Maglev's threads, one in five of
 * those that set them was aborted by V8 (Node 24.21).
 */
test.runIf(long).for([
  ['end', program],
  ['set their flags', setting],
] as const)('100 processes %s while V8 compiles in the background', async ([, text]) => {
  const path = join(await temporaryDirectory(), 'hot.cjs');
  await writeFile(path, text);
  const limits = { stdio: 'ignore', timeout: 60_000, killSignal: 'SIGKILL' } as const;
  for (let i = 0; i < 50; i++) {
    const two = [1, 2].map(() => once(spawn(process.execPath, [path], limits), 'close'));
    for (const ended of await Promise.all(two)) expect(ended).toEqual([0, null]);
  }
});
