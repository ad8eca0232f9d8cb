import { makePagesManifest, type PagesManifest } from '../local/code/pages-manifest.ts';
import { madeOnce } from '../../testkit/run-cache.ts';

/** The manifest of the pages, made once in a run: `pages verify` without one makes it each time. */
export const manifestOfRun = (): Promise<PagesManifest> => madeOnce('manifest of the pages', makePagesManifest);
