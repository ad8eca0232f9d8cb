/** `--limits` of an API key, and of what has one. */
import type { NewApiKey } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import { parseSize } from '../terminal/size.ts';

const limitNames = ['files', 'bytes', 'fileBytes'] as const;
type GivenLimits = NonNullable<NewApiKey['limits']>;

/** `files=100,bytes=10GB`, each at most once. @throws usage */
export function parseLimits(text: string): GivenLimits {
  const limits: GivenLimits = {};
  for (const part of text.split(',')) {
    const [given = '', value = ''] = part.split('=', 2).map((word) => word.trim());
    const name = limitNames.find((each) => each === given);
    if (name === undefined || limits[name] !== undefined)
      throw new SealpinError('usage', `--limits has ${JSON.stringify(given)} ${name ? 'twice' : 'in it'}`, {
        hint: 'write files=100,bytes=10GB,fileBytes=1GB, or some of these',
      });
    const number = name === 'files' && !/^\d+$/.test(value) ? 0 : parseSize(value, `the limit ${name}`);
    if (number < 1) throw new SealpinError('usage', `the limit ${name} is a number from 1 on`);
    limits[name] = number;
  }
  return limits;
}
