/** Refusals to a guest by limits and quotas: they name the invitation, and not the account. */
import { beforeAll, expect, it } from 'vitest';
import { adminToken, sharedService, type Service } from '../../../testkit/service.ts';
import { client } from '../../../testkit/api-client.ts';
import { newOwner } from '../stored-state.ts';
import { ask, begin, hourMs, invite, soon, store } from './guest.ts';

let service: Service;
beforeAll(async () => {
  service = await sharedService();
});

it.each([
  ['its files', { files: 1 }, {}, undefined],
  ['its bytes', { bytes: 1000 }, {}, undefined],
  ['the bytes of a file of its', { fileBytes: 1000 }, {}, undefined],
  ['the files of who invited', {}, { files: 1 }, undefined],
  ['the bytes of who invited', {}, { bytes: 1000 }, undefined],
  ['the quota of the account', {}, {}, 1000],
])('refusals say the same where %s are used up', async (_, ofGuest, ofHost, quotaBytes) => {
  const owner = await newOwner(service);
  const limits = { files: 1000, bytes: 10_000, fileBytes: 10_000, ...ofHost };
  const host = await owner.call.withKey(['keys', 'write', 'share', 'delete'], { limits });
  const guest = await invite(host, { limits: { ...limits, ...ofGuest } });
  if (quotaBytes !== undefined) await client(service.url, adminToken).changeAccount({ id: owner.id, quotaBytes });
  await store(guest);
  const answers = [
    await ask(guest, 'x'.repeat(2000), soon(hourMs)),
    await begin(guest, 2000),
    await guest.ask(
      'storePlain',
      { expiresAt: soon(hourMs) },
      {
        headers: { 'Content-Type': 'a/b' },
        body: new ReadableStream({
          start(controller) {
            controller.enqueue(new Uint8Array(2000));
            controller.close();
          },
        }),
        duplex: 'half',
      },
    ),
  ];
  for (const answer of answers) {
    const { code, detail, hint } = await answer.json<Record<string, string>>();
    expect({ code, detail, hint }).toEqual({
      code: 'quota_exceeded',
      detail: 'this invitation cannot store more now',
      hint: 'take a link back, or ask who invited you',
    });
  }
});
