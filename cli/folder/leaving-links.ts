/**
 * A warning about symbolic links that lead out of a folder; undefined where there are none.
 * @param folder as the user named it
 * @param first of so many
 */
export function leavingWarning(
  folder: string,
  count: number,
  first: { readonly name: string; readonly target: string } | undefined,
): string | undefined {
  if (first === undefined) return undefined;
  const more = count === 1 ? '' : ` (and ${count - 1} more)`;
  return `symbolic links may lead out of ${folder}: ${first.name} -> ${first.target}${more}`;
}
