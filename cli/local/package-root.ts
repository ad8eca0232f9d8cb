import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SealpinError } from '../../shared/errors.ts';

/** The folder that holds package.json, worker/ and shared/: of the checkout, or of the installed package. */
export function packageRoot(from = import.meta.dirname): string {
  for (let dir = from; ; dir = dirname(dir)) {
    const manifest = join(dir, 'package.json');
    if (existsSync(manifest) && (JSON.parse(readFileSync(manifest, 'utf8')) as { name?: string }).name === 'sealpin')
      return dir;
    if (dir === dirname(dir))
      throw new SealpinError('build_failed', 'the source files of sealpin were not found', {
        hint: 'reinstall sealpin',
      });
  }
}
