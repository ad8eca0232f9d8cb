/** Ways in which a backend fails, for the tests of what is said of files meanwhile. */
import type { StoredFile } from '../../../shared/api.ts';
import type { Turn } from '../peer.ts';
import { corrupt, removeBlock, unpinBehindOurBack, type Backend } from './two-backends.ts';

export const json = 'application/json';

const leafBytes = 1_048_576;

/** The second leaf of a file, which is where blocks are damaged. */
const leafOf = (bytes: Buffer): Buffer => bytes.subarray(leafBytes);

export const respond =
  (status: number, body: string, headers = { 'content-type': json }) =>
  (turn: Turn) =>
    turn.answer(status, body, headers);
export const full = respond(500, '{"Message":"write /data/blocks/x: no space left on device","Code":0,"Type":"error"}');

/** The same answer to what writes blocks, and none to other commands. */
export const writes = (answer: (turn: Turn) => void | Promise<void>) => async (turn: Turn) => {
  if (turn.command === 'dag/import' || turn.command === 'block/put') await answer(turn);
  else (await turn.pass()).deliver();
};

/**
 * Ways in which a backend fails while a file is copied there. `words`: what the operator reads of
 * it.
 */
export const refusals = [
  {
    way: 'unreachable',
    answer: (turn: Turn) => turn.cut(),
    status: 'pinning',
    reason: 'pinning_unavailable',
    words: 'cannot be reached',
  },
  { way: 'full', answer: full, status: 'failed', reason: 'disk_full', words: 'is full' },
  {
    way: 'refusing (401)',
    answer: respond(401, 'token expired on Tuesday'),
    status: 'failed',
    reason: 'misconfigured',
    words: 'token expired on Tuesday',
  },
  {
    way: 'unpaid (402)',
    answer: respond(402, '{"error":"your plan has ended"}'),
    status: 'failed',
    reason: 'disk_full',
    words: 'your plan has ended',
  },
  {
    way: 'another page (302)',
    answer: respond(302, 'moved to the console'),
    status: 'failed',
    reason: 'misconfigured',
    words: 'moved to the console',
  },
  {
    way: 'a page in HTML',
    answer: respond(200, '<html>welcome', { 'content-type': 'text/html' }),
    status: 'failed',
    reason: 'misconfigured',
    words: 'HTML',
  },
  {
    way: 'busy (503)',
    answer: respond(503, 'come back\u001b[31m later'),
    status: 'pinning',
    reason: 'pinning_unavailable',
    words: 'come back\\u{1b}[31m later',
  },
  {
    way: 'repeating our token (500)',
    answer: respond(418, 'Bearer token-of-the-tests is not for tea'),
    status: 'failed',
    reason: 'pinning_failed',
    words: '… is not for tea',
  },
] as const;

/**
 * Ways in which a backend loses what it held, and what is seen there then. What is only unpinned is
 * pinned again with the first look.
 */
export const losses = [
  { way: 'unpinned and collected', lose: unpinBehindOurBack, status: 'lost', reason: 'pinning_lost' },
  {
    way: 'without a block below a pin',
    lose: (backend: Backend, _: StoredFile, bytes: Buffer) => removeBlock(backend, leafOf(bytes)),
    status: 'lost',
    reason: 'pinning_lost',
  },
  {
    way: 'with other bytes in a block',
    lose: (backend: Backend, _: StoredFile, bytes: Buffer) => corrupt(backend, leafOf(bytes)),
    status: 'lost',
    reason: 'content_mismatch',
  },
  {
    way: 'unpinned',
    lose: ({ kubo }: Backend, { cid }: StoredFile) => kubo.ipfs('pin', 'rm', cid),
    status: 'pinned',
    reason: undefined,
  },
] as const;
