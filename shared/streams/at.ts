/**
 * Returns the element at an index that exists by the logic of the caller.
 * @throws RangeError where it does not, instead of an undefined that travels on
 */
export function at<T>(list: ArrayLike<T>, index: number): T {
  if (!(index in list)) throw new RangeError(`no element at index ${index} of ${list.length}`);
  return list[index] as T;
}
