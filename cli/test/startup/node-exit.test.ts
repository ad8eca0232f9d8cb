/** The end of Node: a process ends also while V8 compiles code. */
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

/** Without our flags, one run in ten never ended (Node 24.21). */
test.runIf(long)('100 processes end while V8 compiles in the background', async () => {
  const path = join(await temporaryDirectory(), 'hot.cjs');
  await writeFile(path, program);
  const limits = { stdio: 'ignore', timeout: 60_000, killSignal: 'SIGKILL' } as const;
  for (let i = 0; i < 50; i++) {
    const two = [1, 2].map(() => once(spawn(process.execPath, [path], limits), 'close'));
    for (const ended of await Promise.all(two)) expect(ended).toEqual([0, null]);
  }
});
