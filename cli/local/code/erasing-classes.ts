/**
 * The classes of Durable Objects whose deleted rows must leave the disk, and whose unknown objects
 * must leave no file.
 */

/**
 * As the Worker exports them; each has a table of its own, which an object has only if it stands
 * for something.
 */
const tables = { Account: 'account', Share: 'share' } as const;

export type ClassName = keyof typeof tables;

export const erasingClasses = Object.keys(tables) as ClassName[];

/** The table without which an object of a class stands for nothing. */
export function tableOf(className: ClassName): string {
  return tables[className];
}
