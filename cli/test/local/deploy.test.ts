import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { expect, onTestFinished } from 'vitest';
import { bundleWorker } from '../../local/code/bundle.ts';
import { packageRoot } from '../../local/package-root.ts';
import { inCi } from '../../../testkit/long-run.ts';

inCi('wrangler deploy sends the very Worker that start runs, under 1 MiB compressed', async () => {
  const out = await mkdtemp(join(tmpdir(), 'sealpin-deploy-'));
  onTestFinished(() => rm(out, { recursive: true }));
  const wrangler = join(packageRoot(), 'node_modules/wrangler/bin/wrangler.js');
  const { stdout } = await promisify(execFile)(process.execPath, [wrangler, 'deploy', '--dry-run', `--outdir=${out}`], {
    cwd: packageRoot(),
    env: { ...process.env, CI: '1', WRANGLER_SEND_METRICS: 'false' },
  });
  expect(stdout).toContain('--dry-run: exiting now.');
  const sent = await readFile(join(out, 'worker.js'));
  expect(sent.equals(Buffer.from(await bundleWorker()))).toBe(true);
  expect(gzipSync(sent).length).toBeLessThan(2 ** 20);
});
