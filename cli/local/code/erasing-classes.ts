/**
 * The classes of Durable Objects whose deleted rows must leave the disk, and whose unknown objects
 * must leave no file.
 */

/**
 * As the Worker exports them; each has a table of its own, which an object has only if it stands
 * for something.
 */
export const ownTables = { Account: 'account', Share: 'share' } as const;

export type ClassName = keyof typeof ownTables;

export const erasingClasses = Object.keys(ownTables) as ClassName[];
