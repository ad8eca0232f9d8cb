/** A large file encrypted into an S3 store and back, next to rclone and restic. */
import { execFileSync } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { hasVersitygw, startVersitygw, type Versitygw } from '../testkit/object-stores/versitygw.ts';
import { programPath } from '../testkit/programs/programs.ts';
import { fillFile, sealpin, timed, watched, withCommand } from './cli-fixture.ts';
import { figureOf, interleave, MiB, peer, type Bench, type Figure } from './figure.ts';
import { atVersitygw } from './stores.bench.ts';

const fileBytes = 256 * MiB;

/** `npm run bench remotes`. */
export const bench: Bench = {
  name: 'remotes',
  measures: '256 MiB encrypted into versitygw and back, next to rclone crypt and restic',
  async *run() {
    if (!hasVersitygw()) return;
    yield* withCommand<Figure>(async function* (dir) {
      const store = await startVersitygw();
      try {
        yield* compared(dir, store);
      } finally {
        await store.close();
      }
    });
  },
};

/** One way to store the file, and to get it back. */
type Way = { store(): unknown; fetch(): unknown };

async function* compared(dir: string, store: Versitygw): AsyncGenerator<Figure> {
  const [file, out] = [join(dir, 'big'), join(dir, 'out')];
  const { service, close } = await atVersitygw();
  try {
    const { apiKey } = await service.account();
    const ways: Record<string, Way> = {
      sealpin: sealpinWay({ file, out, dir, url: service.url, apiKey }),
      ...rclone({ file, out, dir, store }),
      ...restic({ file, out, store }),
    };
    const tasks = Object.entries(ways).flatMap(([name, way]) => [
      // Another file each time: restic stores nothing twice.
      [`${name} store`, () => fillFile(file, fileBytes).then(timed(way.store))],
      [`${name} fetch`, () => rm(out, { recursive: true, force: true }).then(timed(way.fetch))],
    ]);
    const samples = await interleave(Object.fromEntries(tasks) as Record<string, () => Promise<number>>, 2);
    for (const [what, figure] of [
      ['store', 'ecc-encrypt into versitygw, 256 MiB'],
      ['fetch', 'ecc-decrypt from versitygw, 256 MiB'],
    ] as const)
      for (const name of Object.keys(ways).slice(1)) {
        const [own, theirs] = [samples[`sealpin ${what}`], samples[`${name} ${what}`]];
        if (own && theirs) yield figureOf(figure, 's', own, { peer: peer(name, theirs) });
      }
  } finally {
    await close();
  }
}

function sealpinWay(o: { file: string; out: string; dir: string; url: string; apiKey: string }): Way {
  const data = `--data-dir=${join(o.dir, 'data')}`;
  sealpin('keygen', '--quiet', data);
  const common = [`--service=${o.url}`, '--quiet', data];
  const env = { SEALPIN_API_KEY: o.apiKey };
  let blob = '';
  return {
    async store() {
      blob = (await watched(['ecc-encrypt', o.file, join(o.dir, 'data/public.key'), ...common], env)).stdout;
    },
    fetch: () => watched(['ecc-decrypt', blob, o.out, ...common], env),
  };
}

function rclone({ file, out, dir, store }: { file: string; out: string; dir: string; store: Versitygw }) {
  const program = programPath('rclone');
  if (program === undefined) return {};
  const { url, region, bucket, keyId, secret } = store;
  const run = (...args: string[]): Buffer =>
    execFileSync(program, [`--config=${join(dir, 'rclone.conf')}`, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const s3 = { provider: 'Other', endpoint: url, region, access_key_id: keyId, secret_access_key: secret };
  const pairs = (options: Record<string, string>) => Object.entries(options).map(([key, value]) => `${key}=${value}`);
  run('config', 'create', '--non-interactive', 'store', 's3', ...pairs(s3));
  const crypt = { remote: `store:${bucket}/rclone`, password: 'password of the bench' };
  run('config', 'create', '--non-interactive', '--obscure', 'sealed', 'crypt', ...pairs(crypt));
  return {
    'rclone crypt': { store: () => run('copyto', file, 'sealed:big'), fetch: () => run('copyto', 'sealed:big', out) },
  };
}

function restic({ file, out, store }: { file: string; out: string; store: Versitygw }) {
  const program = programPath('restic');
  if (program === undefined) return {};
  const { url, region, bucket, keyId, secret } = store;
  const env = {
    ...process.env,
    AWS_ACCESS_KEY_ID: keyId,
    AWS_SECRET_ACCESS_KEY: secret,
    AWS_DEFAULT_REGION: region,
    RESTIC_PASSWORD: 'password of the bench',
    RESTIC_REPOSITORY: `s3:${url}/${bucket}/restic`,
  };
  const run = (...args: string[]): Buffer =>
    execFileSync(program, ['--quiet', '--no-cache', ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  run('init');
  return { restic: { store: () => run('backup', file), fetch: () => run('restore', 'latest', '--target', out) } };
}
