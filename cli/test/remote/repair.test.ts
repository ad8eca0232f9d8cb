/** What `sealpin repair` says of a service; what it does to files is in `local/verify.test.ts`. */
import { expect, test } from 'vitest';
import type { PinPage, SurveyedPin } from '../../../shared/api.ts';
import { hostile, json } from '../hostile.ts';
import { defaultTimeouts } from '../../timeouts.ts';
import { run } from '../environment.ts';

const begun = Date.parse('2026-01-02T03:04:05.000Z');
const earlier = new Date(begun - 3_600_000).toISOString();
const soon = new Date(begun + 500).toISOString();
const later = new Date(begun + 3_600_000).toISOString();

function pin(letter: string, more: Partial<SurveyedPin>): SurveyedPin {
  const cid = `bafkrei${letter.repeat(52)}`;
  const files = [{ account: '0'.repeat(22), fileId: '3e9a1b1c-3c44-4f5a-9c52-0a3c4e9f2b11' }];
  return { cid, service: 'store', state: 'live', attempts: 0, dueAt: later, checkedAt: soon, files, ...more };
}

/** Runs it at a service with these pages, of which the last one stays as it is. */
async function repair(pages: PinPage[], ...flags: string[]) {
  const service = await hostile({
    'POST /v1/operator/repair': (_request, response) =>
      json(response, 202, { pins: { live: 4 } }, { date: new Date(begun).toUTCString() }),
    'GET /v1/operator/pins': (_request, response) => json(response, 200, pages.length > 1 ? pages.shift() : pages[0]),
  });
  const ran = await run(['repair', ...flags, '--service', service.url], '/', {
    env: { SEALPIN_ADMIN_TOKEN: 'secret' },
    // It looks 20 times where nothing happens.
    timeouts: { ...defaultTimeouts, pollMs: 0 },
  });
  expect(service.seen.map(({ headers }) => headers.authorization)).toEqual(service.seen.map(() => 'Bearer secret'));
  return { ...ran, requests: service.seen.length };
}

test('all pins are looked at before it is said what is wrong, and what to do', async () => {
  const ran = await repair([
    { pins: [pin('a', {}), pin('b', { dueAt: soon })], cursor: '00' },
    { pins: [pin('a', {}), pin('b', { state: 'lost', reason: 'content_mismatch' })], cursor: '00' },
    {
      pins: [
        pin('c', { state: 'copying' }),
        pin('d', { state: 'failed', reason: 'disk_full', detail: 'store answered 507: no room' }),
      ],
    },
  ]);
  expect(ran).toMatchObject({ exit: 6, stdout: '', requests: 4 });
  const of = (letter: string) => `sealpin: warning: ${pin(letter, {}).cid} (file 3e9a1b1c-3c44-4f5a-9c52-0a3c4e9f2b11)`;
  expect(ran.stderr.split('\n')).toEqual([
    `${of('b')}: store has lost it: content_mismatch; store the same bytes again`,
    `${of('d')}: store does not take it: store answered 507: no room; make room there, or pay for more`,
    'sealpin: in trouble: 2 of 4 pins',
    'sealpin: bytes are copied for 1 pin',
    '',
  ]);
});

const away = { attempts: 1, reason: 'pinning_unavailable', detail: 'store cannot be reached' };
const inOrder = 'sealpin: 1 pin looked at: no backend lacks its bytes\n';
const waiting =
  'sealpin: 0 pins looked at\n' +
  'sealpin: warning: 1 pin not looked at yet, at store: does it respond, and is it in BACKENDS?\n';
const copying = 'sealpin: 1 pin looked at\nsealpin: bytes are copied for 1 pin\n';

test.each<[string, Partial<SurveyedPin>, number, string]>([
  ['seen since', {}, 0, inOrder],
  ['seen since, with too few copies', { ...away, reason: 'underreplicated' }, 0, inOrder],
  ['being removed', { state: 'unpinning', checkedAt: earlier }, 0, inOrder],
  ['not looked at', { dueAt: soon, checkedAt: earlier }, 6, waiting],
  ['left alone meanwhile', { checkedAt: earlier }, 6, waiting],
  ['asked for, without an answer', { ...away, checkedAt: earlier }, 6, waiting],
  ['asked for, without an answer so far', { attempts: 1, checkedAt: earlier }, 6, waiting],
  ['asked for, and not read', away, 6, waiting],
  ['never seen, and asked for without an answer', { ...away, checkedAt: undefined }, 6, waiting],
  ['to be removed, without an answer', { state: 'unpinning', attempts: 1 }, 6, waiting],
  ['to be copied, without an answer', { ...away, state: 'wanted' }, 6, waiting],
  ['copied, without an answer', { ...away, state: 'copying' }, 6, waiting],
  ['seen lost, and to be copied again', { state: 'wanted', reason: 'pinning_lost' }, 0, copying],
  ['seen lost, and copied again', { state: 'copying', reason: 'content_mismatch' }, 0, copying],
  ['made since', { checkedAt: undefined }, 0, inOrder.replace('1 pin', '0 pins')],
])('it is in order only if the backend has said so: %s', async (_, more, exit, stderr) => {
  expect(await repair([{ pins: [pin('a', more)] }])).toMatchObject({ exit, stderr, stdout: '' });
  const { stdout } = await repair([{ pins: [pin('a', more)] }], '--json');
  const so = { waiting: Number(stderr === waiting), copying: Number(stderr === copying), bad: [] };
  expect(JSON.parse(stdout)).toMatchObject(so);
});
