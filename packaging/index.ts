/** Builds the packages that are published, and packs them, into `dist/npm/`: `npm run packages`. */
import { join } from 'node:path';
import { packageRoot } from '../cli/local/package-root.ts';
import { buildPackages, packInto } from './packages.ts';

const folder = join(packageRoot(), 'dist', 'npm');
const built = await buildPackages(folder);
for (const { name, bytes } of built) console.log(`built ${name}, ${(bytes / 1e6).toFixed(1)} MB`);
for (const path of await packInto(folder, built)) console.log(path);
