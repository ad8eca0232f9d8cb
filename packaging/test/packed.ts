/** Both packages, built and packed once for all tests of a run, which change nothing in them. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { madeOnce } from '../../testkit/run-cache.ts';
import { buildPackages, type BuiltPackage } from '../packages.ts';

/**
 * `sealpin` and `@sealpin/local`, in this order: the folders of the packages, and the paths of the
 * packed tarballs.
 */
export type Packed = { readonly built: readonly BuiltPackage[]; readonly tarballs: readonly string[] };

export function packed(): Promise<Packed> {
  return madeOnce('packages', async (folder) => {
    const built = await buildPackages(join(folder, 'npm'));
    const pack = async ({ path }: BuiltPackage): Promise<string> => {
      const flags = ['--silent', `--pack-destination=${folder}`];
      const { stdout } = await promisify(execFile)('npm', ['pack', ...flags], { cwd: path });
      return join(folder, stdout.trim());
    };
    return { built, tarballs: await Promise.all(built.map(pack)) };
  });
}
