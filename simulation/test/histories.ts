/** Plans that found a bug. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Plan } from '../world/plan.ts';

const folder = join(import.meta.dirname, 'histories');

export const historyFiles = readdirSync(folder);

export function planFrom(file: string): Plan {
  return JSON.parse(readFileSync(join(folder, file), 'utf8')) as Plan;
}
