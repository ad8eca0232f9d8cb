/** The formats that are read and written. */
import { age } from './age.ts';
import type { Format, FormatRow } from './format-row.ts';
import { sealpinV1 } from './sealpin-v1.ts';

const formatRows: Readonly<Record<Format, FormatRow>> = { age, sealpin: sealpinV1 };

export const formats: readonly FormatRow[] = Object.values(formatRows);

export function formatOf(name: Format): FormatRow {
  return formatRows[name];
}
