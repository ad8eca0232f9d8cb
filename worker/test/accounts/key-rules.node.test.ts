/** Labels and ends of API keys, at the edges. */
import { beforeAll, describe, expect, it } from 'vitest';
import * as v from 'valibot';
import { NewApiKeyResponse } from '../../../shared/api.ts';
import { sharedService, type Service } from '../../../testkit/service.ts';
import { client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';

let service: Service;
beforeAll(async () => {
  service = await sharedService();
});

async function newAccount(): Promise<Client> {
  return client(service.url, (await service.account()).apiKey);
}

describe('an API key', () => {
  it('has an end that is a time and can be written, or none', async () => {
    const owner = await newAccount();
    const ending = await owner.withKey(['read', 'keys'], { expiresAt: new Date(Date.now() + 3_600_000).toISOString() });
    for (const expiresAt of [
      '2099-01-01T00:00:00+00',
      '9999-12-31T23:59:59-23:59',
      '2099-13-01T00:00:00Z',
      '2099-02-30T00:00:00Z',
      '2099-01-01T24:00:00Z',
      '2099-01-01T00:00:00',
      '2099-01-01',
      'never',
      '',
    ]) {
      for (const maker of [owner, ending])
        expect(await problemOf(maker.ask('createKey', { label: 'x', scopes: ['read'], expiresAt })), expiresAt).toBe(
          '400 invalid_request',
        );
    }
    const last = await owner.withKey(['read'], { expiresAt: '9999-12-31T23:59:59.999Z' });
    const { keys } = await owner.listKeys();
    expect(keys.find((key) => key.id === last.id)?.expiresAt).toBe('9999-12-31T23:59:59.999Z');
    expect(keys.length).toBe(3);
  });

  it('has an end in any time zone, which is compared and shown in UTC', async () => {
    const owner = await newAccount();
    const local = (ms: number, zone: string, shiftMs: number): string =>
      `${new Date(Date.now() + ms + shiftMs).toISOString().slice(0, 19)}${zone}`;
    const hour = 3_600_000;
    for (const [zone, shiftMs] of [
      ['+14:00', 14 * hour],
      ['-12:00', -12 * hour],
    ] as const) {
      const body = { label: 'x', scopes: ['read'] as const, expiresAt: local(-60_000, zone, shiftMs) };
      expect(await problemOf(owner.ask('createKey', body))).toBe('400 invalid_request');
      const expiresAt = local(60_000, zone, shiftMs);
      const { key } = await owner.createKey({ ...body, expiresAt });
      expect(key.expiresAt).toBe(new Date(Date.parse(expiresAt)).toISOString());
    }
  });

  it('has a label of 1 to 100 code points that a terminal can show', async () => {
    const owner = await newAccount();
    const post = (label: string) => owner.ask('createKey', { label, scopes: ['write'] });
    for (const label of ['x', ' ', 'é'.repeat(100), '😀'.repeat(100), 'خانه‌ی من', '👩‍💻', '</script>', '"\\']) {
      const { key } = v.parse(NewApiKeyResponse, await jsonOf(post(label), 201));
      expect(key.label).toBe(label);
    }
    const unseen = ['\0', '\n', '\u001b[2J', '\u007f', '\u009b', '\u200b', '\u202e', '\u2066', '\u2028', '\ufeff'];
    for (const label of ['', '😀'.repeat(101), '\ud800', ...unseen.map((char) => `a${char}b`)])
      expect(await problemOf(post(label)), label).toBe('400 invalid_request');
  });
});
