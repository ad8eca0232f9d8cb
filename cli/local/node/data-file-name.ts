/** Files below `data/` of the node: names, and what a command says of one that it writes. */

/** The suffix of a file that is being written. */
export const partSuffix = '.part';

/** The suffix of an import, which is a CAR on the disk. */
export const carSuffix = '.car';

/** Bytes that a command has written there, for each byte that it sends instead of them. */
export const writtenPerByte = 32;

/** Recognizes the name of a complete file. */
export const isDataFileName = (name: string): boolean => /^[0-9a-f]{32}(?:\.car)?$/.test(name);
