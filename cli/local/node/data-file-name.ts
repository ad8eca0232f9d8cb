/** Names of the files below `data/` of the node. */

/** The suffix of a file that is being written. */
export const partSuffix = '.part';

/** The suffix of an import, which is a CAR on the disk. */
export const carSuffix = '.car';

/** Recognizes the name of a complete file. */
export const isDataFileName = (name: string): boolean => /^[0-9a-f]{32}(?:\.car)?$/.test(name);
