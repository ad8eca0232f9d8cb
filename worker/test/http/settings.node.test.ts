/** Settings: any words but those of docs/operating.md are refused, before anything happens. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { client, problemOf } from '../../../testkit/api-client.ts';
import { documentedSettings, parsedSettings } from '../../../testkit/documented-settings.ts';
import { adminToken, startService, withSettings, type Service } from '../../../testkit/service.ts';
import { settingFaults, type Env } from '../../env.ts';
import { newOwner, type Owner } from '../stored-state.ts';

/** Words that no setting has. */
const wrongWords = ['a word', ' 1', '1 ', '1,5', '100%', 'on\n', '√4'];

/** What a variable may be in TOML besides a text. */
const otherValues = [0, 5, -1, 2.5, 1e21, true, false, [], [5], ['*'], ['on'], {}, { a: 'on' }];

const faultsWith = (settings: Record<string, unknown>): string[] =>
  settingFaults({ PIN: { idFromName: () => 'id' }, ...settings } as unknown as Env);
const all = (word: string): Record<string, string> => Object.fromEntries(parsedSettings.map((name) => [name, word]));

describe('the settings of the manual', () => {
  it('may all be empty, or not there', () => {
    expect(parsedSettings.length).toBeGreaterThan(10);
    expect(faultsWith({})).toEqual([]);
    expect(faultsWith(all(''))).toEqual([]);
  });

  it.each(wrongWords)('refuse %j, each by its name', (word) => {
    const named = faultsWith(all(word)).map((fault) => /^\w+/.exec(fault)?.[0] ?? '');
    expect(named.toSorted()).toEqual([...parsedSettings].toSorted());
  });

  it.each([...documentedSettings, 'BACKENDS', 'PINNING_SERVICES'])(
    'have %s as a text, or as the same number',
    (name) => {
      for (const value of otherValues)
        expect(faultsWith({ [name]: value }), JSON.stringify(value)).toEqual(
          typeof value === 'number' ? faultsWith({ [name]: `${value}` }) : [`${name} is not a text, such as "…"`],
        );
    },
  );

  it.each(['OFF', 'Off', 'of', 'false', 'no', '0', 'none', 'On', 'true'])(
    'neither open nor close a gateway by %j',
    (word) => expect(faultsWith({ PUBLIC_GATEWAY: word })).toEqual(['PUBLIC_GATEWAY is neither on nor off']),
  );

  it('name pages by origins, as browsers send them', () => {
    const origins = ['*', 'https://a.example', ' http://localhost:3000 ', 'moz-extension://0b1e', 'https://[::1]:8443'];
    expect(faultsWith({ CORS_ORIGINS: origins.join(',') })).toEqual([]);
    for (const origin of ['https://a.example/', 'a.example', 'https://a.example:443', 'https://me@a.example', 'null'])
      expect(faultsWith({ CORS_ORIGINS: `*,${origin}` })).toEqual([
        `CORS_ORIGINS has "${origin}", which is not an origin such as https://app.example.com`,
      ]);
  });
});

describe('a Worker with a wrong setting', () => {
  let service: Service;
  let owner: Owner;
  beforeAll(async () => {
    service = await startService({ entry: 'worker/test/clock.ts' });
    owner = await newOwner(service);
  });
  afterAll(() => service.close());

  it('does nothing, and counts no backend as refusing', async () => {
    const { fileId, cid } = await owner.call.store('plain', 'still there');
    for (const name of parsedSettings) {
      const call = client(service.url, owner.call.apiKey, withSettings({ [name]: 'a word' }));
      for (const asked of [
        call.ask('deleteFile', { fileId }),
        call('/v1/storage/plain', { method: 'POST', body: 'x' }),
        call(`/ipfs/${cid}`),
        call('/v1/health?live'),
      ])
        expect(await problemOf(asked), name).toBe('500 misconfigured');
    }
    for (const name of [...documentedSettings, 'BACKENDS'])
      expect(
        await problemOf(client(service.url, owner.call.apiKey, withSettings({ [name]: ['*'] }))('/v1/health')),
        name,
      ).toBe('500 misconfigured');
    await expect.poll(() => service.log.join('\n')).toContain('refusal.tell');
    expect(await client(service.url, adminToken).getHealth()).toMatchObject({ status: 'ok' });
    expect((await owner.call.listFiles()).files).toMatchObject([{ fileId }]);
  });
});
