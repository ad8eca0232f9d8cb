/** The setting `BACKUP_DAYS`, which a deployed service and a local one have. */
import { SealpinError, type Code } from './errors.ts';

/** The most that it may be: ten years. */
const maxDays = 3650;

/**
 * Days for which backups of the operator's are kept; undefined where the operator does not say.
 * @param code of the error when the text is not a whole number of days
 */
export function parseBackupDays(text: string | undefined, code: Code = 'misconfigured'): number | undefined {
  if (text === undefined || text === '') return undefined;
  const days = Number(text);
  if (!/^[0-9]{1,4}$/.test(text) || days > maxDays)
    throw new SealpinError(code, `BACKUP_DAYS is not a whole number from 0 to ${maxDays}`);
  return days;
}
