/** Builds the packages that are published, into `dist/npm/`: `npm run packages`. */
import { join } from 'node:path';
import { packageRoot } from '../cli/local/package-root.ts';
import { buildPackages } from './packages.ts';

const sizes = await buildPackages(join(packageRoot(), 'dist', 'npm'));
for (const { name, path, bytes } of sizes) console.log(`built ${path} (${name}, ${(bytes / 1e6).toFixed(1)} MB)`);
