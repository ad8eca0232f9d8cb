/** Both packages, built and packed once for all tests of a run, which change nothing in them. */
import { join } from 'node:path';
import { madeOnce } from '../../testkit/run-cache.ts';
import { buildPackages, packInto, type BuiltPackage } from '../packages.ts';

/**
 * `sealpin` and `@sealpin/local`, in this order: the folders of the packages, and the paths of the
 * packed tarballs.
 */
export type Packed = { readonly built: readonly BuiltPackage[]; readonly tarballs: readonly string[] };

export function packed(): Promise<Packed> {
  return madeOnce('packages', async (folder) => {
    const built = await buildPackages(join(folder, 'npm'));
    return { built, tarballs: await packInto(folder, built) };
  });
}
