/** What `sealpin repair` says of a service; what it does to files is in `local/verify.test.ts`. */
import { expect, test } from 'vitest';
import type { PinPage, SurveyedPin } from '../../../shared/api.ts';
import { hostile, json } from '../hostile.ts';
import { run } from '../environment.ts';

const begun = Date.parse('2026-01-02T03:04:05.000Z');
const soon = new Date(begun + 500).toISOString();
const later = new Date(begun + 3_600_000).toISOString();

function pin(letter: string, more: Partial<SurveyedPin>): SurveyedPin {
  const cid = `bafkrei${letter.repeat(52)}`;
  const files = [{ account: '0'.repeat(22), fileId: '3e9a1b1c-3c44-4f5a-9c52-0a3c4e9f2b11' }];
  return { cid, service: 'store', state: 'live', attempts: 0, dueAt: later, files, ...more };
}

test('all pins are looked at before it is said what is wrong, and what to do', async () => {
  const pages: PinPage[] = [
    { pins: [pin('a', {}), pin('b', { dueAt: soon })], cursor: '00' },
    { pins: [pin('a', {}), pin('b', { state: 'lost', reason: 'content_mismatch' })], cursor: '00' },
    {
      pins: [
        pin('c', { state: 'copying' }),
        pin('d', { state: 'failed', reason: 'disk_full', detail: 'store answered 507: no room' }),
      ],
    },
  ];
  const service = await hostile({
    'POST /v1/operator/repair': (_request, response) =>
      json(response, 202, { pins: { live: 4 } }, { date: new Date(begun).toUTCString() }),
    'GET /v1/operator/pins': (_request, response) => json(response, 200, pages.shift()),
  });
  const ran = await run(['repair', '--service', service.url], '/', { env: { SEALPIN_ADMIN_TOKEN: 'secret' } });
  expect(ran).toMatchObject({ exit: 6, stdout: '' });
  const of = (letter: string) => `sealpin: warning: ${pin(letter, {}).cid} (file 3e9a1b1c-3c44-4f5a-9c52-0a3c4e9f2b11)`;
  expect(ran.stderr.split('\n')).toEqual([
    `${of('b')}: store has lost it: content_mismatch; store the same bytes again`,
    `${of('d')}: store does not take it: store answered 507: no room; make room there, or pay for more`,
    'sealpin: in trouble: 2 of 4 pins',
    'sealpin: bytes are copied for 1 pin',
    '',
  ]);
  expect(service.seen.map(({ headers }) => headers.authorization)).toEqual(service.seen.map(() => 'Bearer secret'));
});
