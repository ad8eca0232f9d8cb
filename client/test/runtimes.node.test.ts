/**
 * The suites of the SDK, and the SDK at a service, in the runtimes besides Node that are installed.
 */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { describe, expect, test } from 'vitest';
import type { Outcome } from '../../testkit/browsers/page-suites.ts';
import { installed, withProgram } from '../../testkit/programs/programs.ts';
import { startService } from '../../testkit/service.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { first } from '../../testkit/present.ts';
import { long } from '../../testkit/long-run.ts';

/** Arguments before the module. Deno is allowed nothing but loopback. */
const runtimes = { deno: ['run', '--no-config', '--no-prompt', '--allow-net=127.0.0.1'], bun: ['run'] };

type Printed = { outcomes: Outcome[]; wrong: string[]; isStored: boolean };

for (const [program, args] of Object.entries(runtimes))
  withProgram(program, { probe: ['--version'], isOptional: true }, () => {
    describe(program, () => {
      test.runIf(long)(`${program}: every suite, and a service`, async () => {
        const service = await startService();
        try {
          const { apiKey } = await service.account();
          const { stdout } = await promisify(execFile)(installed(program), [
            ...args,
            await moduleFor(service.url, apiKey),
          ]);
          const { outcomes, wrong, isStored } = JSON.parse(stdout) as Printed;
          expect(outcomes.length).toBeGreaterThan(3);
          for (const { passed, failed } of outcomes) {
            expect(failed).toEqual([]);
            expect(passed.length).toBeGreaterThan(0);
          }
          expect(wrong).toEqual([]);
          expect(isStored).toBe(true);
        } finally {
          await service.close();
        }
      });
    });
  });

/** A module that runs what a page runs, and prints what became of it. */
async function moduleFor(service: string, apiKey: string): Promise<string> {
  const at = `'${service}', '${apiKey}'`;
  const js = `const outcomes = [];
    for (const name of sealpin.suites) outcomes.push(await sealpin.run(name));
    const wrong = await roundTrips(${at});
    console.log(JSON.stringify({ outcomes, wrong, isStored: await storesLongStream(${at}) }));`;
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, 'suites-page.ts')],
    footer: { js },
    bundle: true,
    format: 'esm',
    target: 'es2024',
    write: false,
  });
  const path = join(await temporaryDirectory(), 'suites.mjs');
  await writeFile(path, first(outputFiles).contents);
  return path;
}
