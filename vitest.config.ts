import { cloudflareTest } from '@cloudflare/vitest-plugin';
import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { webModule, webModuleText } from './cli/local/code/web-bundle.ts';
import { closingLines } from './testkit/closing-lines.ts';
import { hasVersitygw } from './testkit/object-stores/versitygw.ts';
import { bundledOnce } from './testkit/run-cache.ts';

/**
 * Lets Vite find the pages, as esbuild does when it bundles the Worker: some tests import its table
 * of routes.
 */
const webPlugin = {
  name: webModule,
  resolveId: (id: string) => (id === webModule ? `\0${id}` : undefined),
  load: async (id: string) => (id === `\0${webModule}` ? await bundledOnce(webModule, webModuleText) : undefined),
};

const form = process.env['SEALPIN_LONG'] ?? '';
const long = form === '1';
const ci = long || form === 'ci';
// One process runs many files: to start it, and to load Miniflare, would cost more than most tests.
// Its heap is large, and V8 would walk all of it after every 64 MB of buffers, for a third of the
// time of such a process.
const shared = {
  isolate: false,
  setupFiles: ['testkit/equality.ts'],
  execArgv: [
    '--external-memory-accounted-in-global-limit',
    '--heap-growing-percent=400',
    `--import=${new URL('testkit/child-limit.ts', import.meta.url).href}`,
  ],
};
// What a test waits for comes within a second, unless other tests keep both cores busy.
const timeouts = {
  testTimeout: long ? 3_600_000 : 180_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 30_000 } },
};

// Bundled before the run: the imports that Vitest rewrites make the loops of noble ten times slower
// in workerd.
const bundled = [
  '@noble/ciphers/chacha.js',
  '@noble/curves/ed25519.js',
  '@noble/curves/nist.js',
  '@noble/hashes/hmac.js',
  '@noble/hashes/scrypt.js',
  '@noble/hashes/sha2.js',
  '@noble/hashes/sha3.js',
  '@noble/post-quantum/hybrid.js',
];

// What is tried with buckets; in the short form, `stores/` alone. Shares know nothing of backends: the
// simulation and the long form have them over buckets, too.
const everySuite = '{{files,uploads,shares}/**/*,accounts/backup,backends/gateway/*}';
const someSuites = { r2: '{files/reading,backends/gateway/gateway}', s3: 'uploads/lengths' };

// Files that end in `.node.test.ts` need Node (processes, sockets, files); every other test in
// shared/ and client/ runs in both.
export default defineConfig({
  test: {
    reporters: ['default', closingLines],
    globalSetup: 'testkit/run-cache.ts',
    // Tests mostly wait for processes, sockets and disks; by default Vitest uses one core of two.
    maxWorkers: Math.max(4, availableParallelism()),
    projects: [
      {
        plugins: [webPlugin],
        test: {
          name: 'node',
          include: [
            '{shared,client,web,cli,packaging,deploy,bench,testkit}/test/**/*.test.ts',
            'worker/test/**/*.node.test.ts',
          ],
          ...shared,
          ...timeouts,
        },
      },
      {
        // They add to the globals of their process what newer runtimes have.
        test: { name: 'simulation', include: ['simulation/test/**/*.test.ts'], ...shared, ...timeouts },
      },
      {
        // The same tests through the guard of `sealpin start`: the long form has all of them, CI
        // those that compare responses closely, the short form none.
        plugins: [webPlugin],
        test: {
          name: 'guard',
          include: [`worker/test/${long ? '**/*' : '{files/reading,backends/gateway/conformance}'}.node.test.ts`],
          exclude: ci ? [] : ['**'],
          env: { SEALPIN_TEST_GUARD: '1' },
          ...shared,
          ...timeouts,
        },
      },
      ...(['r2', 's3'] as const).map((backend) => ({
        // Files in a bucket instead of an IPFS node.
        plugins: [webPlugin],
        test: {
          name: backend,
          include: [`worker/test/${long ? everySuite : someSuites[backend]}.node.test.ts`],
          exclude: ['**/network.node.test.ts', ...(ci && (backend === 'r2' || hasVersitygw()) ? [] : ['**'])],
          env: { SEALPIN_TEST_BACKEND: backend },
          ...shared,
          ...timeouts,
        },
      })),
      {
        plugins: [
          webPlugin,
          cloudflareTest({ main: './worker/index.ts', wrangler: { configPath: './wrangler.toml' } }),
        ],
        test: {
          name: 'workerd',
          include: ['{shared,client}/test/**/*.test.ts', 'worker/test/**/*.test.ts'],
          // The short form leaves out what Chromium tries, too, and what says little about an engine.
          exclude: [
            '**/*.node.test.ts',
            ...(ci ? [] : ['shared/test/{ipfs/*,crypto/*/{armored-forms,flow,hpke}}.test.ts']),
          ],
          isolate: false,
          setupFiles: ['testkit/equality.ts'],
          // workerd does not have our process.env.
          provide: { form },
          deps: { optimizer: { ssr: { enabled: true, include: bundled } } },
          ...timeouts,
        },
      },
    ],
  },
});
