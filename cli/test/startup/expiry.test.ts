/** Times that `--expires` takes, and those that would become another one. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadCommands } from '../../commands/index.ts';
import { parseExpiry } from '../../flags/args.ts';
import { run, temporaryDirectory } from '../environment.ts';
import { account, health, hostile, json, someApiKey, storedFile } from '../hostile.ts';

const stored = storedFile(`bafkrei${'a'.repeat(52)}`, 7);
/** A use of each command that has the flag. */
const lines: Record<string, string[]> = {
  send: ['letter'],
  'shares change': ['7n42DGM5Tflk9n8mt7Fhc7'],
  'inbox create': ['tax', '--recipient', 'age1tag1q00uq0syq39985lxzsh82jskrkyuehly57agmvd3aamtct685x987zzl47g'],
  'invite create': [],
  set: [stored.fileId],
  'key create': ['backup'],
};

describe('--expires', () => {
  const now = Date.parse('2026-12-31T22:00:00.5Z');
  // Where local time is not UTC, a time without a zone would be another one.
  const noTimes = [
    '2027-02-29 2027-02-31 2027-04-31 2027-13-01 2027-00-10 2027-01-00 2027-02-31T00:00:00Z 2027-01-31T24:00:00Z',
    '2027-01-31T18:00:61Z 2027-01-31T18:00:00+24:00 2027-01-31T18:00 2027-01-31T18:00:00 2027-01-31T18:00Z 2027-01-31Z',
    '2027-01-31x 2027-01 2027 27-01-31 +002027-01-31 31.01.2027 12 12m 1.5d 0d -1d 1e2d 123456d never now',
  ].flatMap((line) => line.split(' '));
  const withSpaces = ['2027-01-31 18:00:00', '2027-01-31T18:00:00Z x', 'Jan 31 2027', ' 12h', ''];
  test.each([...noTimes, ...withSpaces])('refuses %j, and shows what it takes', (text) => {
    expect(() => parseExpiry(text, now)).toThrow(
      expect.objectContaining({ code: 'usage', hint: expect.stringMatching(/12h.*2027-01-31 .*UTC.*zone/) as string }),
    );
  });

  test.each([
    ['12h', '2027-01-01T10:00:00.500Z'],
    ['30d', '2027-01-30T22:00:00.500Z'],
    ['2027-01-01', '2027-01-01T00:00:00.000Z'],
    ['2028-02-29', '2028-02-29T00:00:00.000Z'],
    ['2027-01-31T18:00:00+01:00', '2027-01-31T17:00:00.000Z'],
    ['2027-01-31T18:00:00.25Z', '2027-01-31T18:00:00.250Z'],
  ])('takes %s for %s', (text, time) => {
    expect(parseExpiry(text, now)).toBe(time);
  });

  test('is read alike by every command, and nothing is stored or changed where it is wrong', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'letter'), 'Dear Ann');
    const service = await hostile({
      'GET /v1/health': health(),
      'GET /v1/account': account(['read', 'write', 'delete', 'share', 'keys']),
      [`GET /v1/storage/${stored.fileId}`]: (_request, response) => json(response, 200, stored),
    });
    // share reads what send does, once it has opened the file.
    const taking = (await loadCommands()).filter(({ args, name }) => 'expires' in args && name !== 'share');
    expect(Object.keys(lines).toSorted()).toEqual(taking.map(({ name }) => name).toSorted());
    for (const [name, rest] of Object.entries(lines)) {
      const argv = [...name.split(' '), ...rest, '--expires', '2027-02-31', '--service', service.url];
      const ran = await run([...argv, '--data-dir', directory], directory, { env: { SEALPIN_API_KEY: someApiKey } });
      expect(ran, name).toMatchObject({ exit: 2, stderr: expect.stringContaining('--expires is neither') as string });
    }
    expect(service.seen.filter(({ method }) => method !== 'GET')).toEqual([]);
  });

  test('is named by every command where the service refuses the end', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'letter'), 'Dear Ann');
    const status = 400;
    const detail = 'expiresAt is in the past';
    const problem = { type: 'about:blank', title: 'The request is not valid', status, code: 'invalid_request', detail };
    const refuse: Parameters<typeof hostile>[0][string] = (_request, response) => json(response, status, problem);
    const service = await hostile({
      'GET /v1/health': health(),
      'GET /v1/account': account(['read', 'write', 'delete', 'share', 'keys']),
      [`GET /v1/storage/${stored.fileId}`]: (_request, response) => json(response, 200, stored),
      'POST /': refuse,
      'PATCH /': refuse,
    });
    for (const [name, rest] of Object.entries(lines)) {
      const argv = [...name.split(' '), ...rest, '--expires', '2020-01-01', '--service', service.url];
      const ran = await run([...argv, '--data-dir', directory], directory, { env: { SEALPIN_API_KEY: someApiKey } });
      expect(ran, name).toMatchObject({
        exit: 2,
        stderr: expect.stringMatching(/hint: change .*--expires\n/) as string,
      });
    }
  });

  test('is judged by the clock of the service, in every command', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'letter'), 'Dear Ann');
    const shares = { maxDays: 30, maxOpens: 9 };
    const service = await hostile({
      'GET /v1/health': (_request, response) =>
        json(response, 200, { status: 'ok', version: '0.1.0', maxUploadBytes: null, shares }),
      'GET /v1/account': account(['read', 'write', 'delete', 'share', 'keys', 'share']),
      [`GET /v1/storage/${stored.fileId}`]: (_request, response) => json(response, 200, stored),
    });
    const soon = new Date(Date.now() + 9 * 24 * 3600 * 1000).toISOString();
    for (const clock of ['2020-01-01', '2090-01-01'])
      for (const [name, rest] of Object.entries(lines)) {
        const argv = [...name.split(' '), ...rest, '--expires', soon, '--service', service.url];
        const env = { SEALPIN_API_KEY: someApiKey };
        const ran = await run([...argv, '--data-dir', directory], directory, { env, now: () => Date.parse(clock) });
        const last = service.seen.at(-1);
        expect({ name, clock, method: last?.method }, ran.stderr).not.toMatchObject({ method: 'GET' });
        service.seen.length = 0;
      }
  });
});
