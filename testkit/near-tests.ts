/** Choosing the tests nearest to a change. */
import { posix } from 'node:path';

/** The specifiers that a source imports, in types, dynamic imports and comments, too. */
export function importsOf(source: string): string[] {
  const forms = [
    /^\s*(?:import|export)\b[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]/gm,
    /^\s*import\s*['"]([^'"]+)['"]/gm,
    /\bimport\(\s*['"]([^'"]+)['"]/g,
  ];
  return forms.flatMap((form) => [...source.matchAll(form)].flatMap(([, specifier]) => specifier ?? []));
}

/**
 * The test files that import what changed, nearest first: in the drawer of the change, then by the
 * number of imports between.
 * @param changed paths of changed files
 * @param sources the TypeScript files of the repository: their text by their path
 */
export function nearTests(changed: readonly string[], sources: ReadonlyMap<string, string>): string[] {
  const importers = new Map<string, string[]>();
  for (const [path, text] of sources)
    for (const specifier of importsOf(text).filter((each) => each.startsWith('.'))) {
      const target = posix.join(posix.dirname(path), specifier);
      importers.set(target, [...(importers.get(target) ?? []), path]);
    }
  const hops = new Map(changed.map((path) => [path, 0]));
  // A Map iterates over what is added meanwhile: breadth first.
  for (const [path, count] of hops)
    for (const importer of importers.get(path) ?? []) if (!hops.has(importer)) hops.set(importer, count + 1);
  const drawers = new Set(changed.map((path) => posix.dirname(path)));
  const rank = (path: string, count: number) =>
    drawers.has(posix.dirname(path).replace('/test', '')) ? Math.min(count, 1) : count;
  return [...hops]
    .filter(([path]) => path.endsWith('.test.ts') && sources.has(path))
    .toSorted(([a, aCount], [b, bCount]) => rank(a, aCount) - rank(b, bCount))
    .map(([path]) => path);
}
