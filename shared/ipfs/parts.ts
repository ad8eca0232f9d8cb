/**
 * Parts in which a file is stored while it arrives: whole leaves, but for the last one of the file.
 */

/** Leaves of the first part of a file. */
const leastPartLeaves = 16;
/**
 * The most leaves of a part: some proxies take no body of more than 100 MB. More than 1,024 would
 * need more than one node.
 */
export const mostPartLeaves = 64;
/**
 * Time for which a part may stay open, in ms: an import must not last as long as a slow client
 * takes.
 */
export const partMs = 5000;
/**
 * The same for a part that has as many leaves as the first one: a request that ends without notice
 * loses those of its part.
 */
const largePartMs = 1000;

/**
 * Returns the largest number of leaves in a part. Each part is rows, calls and a pin, so that large
 * files get large ones.
 * @param leaves of the file before the part
 */
export function partLeaves(leaves: number): number {
  return Math.min(leaves + leastPartLeaves, mostPartLeaves);
}

/** Returns the time, in ms, for which a part of an upload in several requests may stay open. */
export function continuedPartMs(leaves: number): number {
  return leaves >= leastPartLeaves ? largePartMs : partMs;
}
