import { describe, test } from 'vitest';
import { cars } from './suites/cars.ts';
import { cids } from './suites/cids.ts';
import { files } from './suites/files.ts';
import { hashingStreams } from './suites/hashing-streams.ts';
import { trees } from './suites/trees.ts';
import { writtenCars } from './suites/written-cars.ts';

for (const suite of [cars, cids, files, hashingStreams, trees, writtenCars])
  describe(suite.name, () => suite({ test, note: () => undefined, long: false }));
