/** Values that must be there: a test that lacks one fails where it asked, and says for what. */

/** Returns a value that is there. @param what it is, in the error */
export function present<T>(value: T, what = 'a value'): NonNullable<T> {
  if (value === null || value === undefined) throw new Error(`${what} is expected here, and there is ${String(value)}`);
  return value;
}

/** Returns an item of a list. @param index counted from the end where it is negative */
export function itemOf<T>(list: ArrayLike<T>, index: number): NonNullable<T> {
  return present(list[index < 0 ? list.length + index : index], `item ${index} of ${list.length}`);
}

/** Returns the first item of a list. */
export function first<T>(list: ArrayLike<T>): NonNullable<T> {
  return itemOf(list, 0);
}

/** Changes a byte, as damage would. @param mask the bits that change */
export function flip(bytes: Uint8Array, index: number, mask = 1): void {
  bytes[index] = itemOf(bytes, index) ^ mask;
}
