/** What stores do on a bad day, and what the service makes of it: a row for each fault. */
import {
  answersAsBefore,
  answersLate,
  doesAndRefuses,
  drops,
  failsWith200,
  firstOfEach,
  flips,
  refuses,
  resizes,
  type Rule,
} from '../../../testkit/object-stores/hostile-store.ts';
import type { Kind } from './store-under-test.ts';

/**
 * Operations that run under each fault. `held`: a file that comes without a length, in objects that
 * fit into memory; `streamed`: one whose bytes go to the store as they arrive, and cannot be sent
 * again; `read`: whole, a range, a block, a CAR.
 */
export type Operation = 'held' | 'streamed' | 'tus' | 'read' | 'remove' | 'verify';

/**
 * What becomes of an operation: `right`, or the status and code of a refusal. Of a removal and of a
 * verification it is the status of the pin; `later`: the verification continues by itself.
 */
type Outcomes = Readonly<Record<Operation, string>>;

export type Row = {
  readonly name: string;
  readonly rule: Omit<Rule, 'fault'> & { fault(): Rule['fault'] };
  readonly outcomes: Outcomes;
  /** Words of the log that tell the operator what to look at. */
  readonly says?: string;
  /** The kind of store that does so, where that is one only. */
  readonly only?: Kind;
};

const right = { remove: 'unpinned', verify: 'pinned' };
const reading = { ...right, read: 'right' };
const fine: Outcomes = { ...reading, held: 'right', streamed: 'right', tus: 'right' };
/** Uploads are refused. */
const nothingTaken = (code: string): Outcomes => ({ ...reading, held: code, streamed: code, tus: code });
/** Everything is refused, or waits. */
const nothing = (code: string): Outcomes => ({
  ...nothingTaken(code),
  read: code,
  remove: 'scheduled',
  verify: 'later',
});
const patience = '503 pinning_unavailable';
/** A stream is not sent twice: the client is told when to come back. */
const streamsAgain: Outcomes = { ...fine, streamed: patience, tus: patience };
const gone = nothing(patience);
const wrong = nothing('500 misconfigured');

const data = /^sealpin-tested\/data\//;
const index = /^sealpin-tested\/cid\//;
const always = (fault: Rule['fault']): Row['rule'] => ({ fault: () => fault });
const once = (fault: Parameters<typeof firstOfEach>[0]): Row['rule'] => ({ fault: () => firstOfEach(fault) });
const tenthOfASecond = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 100));
const changes = (fault: Exclude<Rule['fault'], (...args: never) => unknown>): Row['rule'] =>
  always(({ method }) => (['PUT', 'DELETE'].includes(method) ? fault : undefined));

/** Listings are other text than what the store gives. */
const listings = (change: (xml: string) => string): Row['rule'] => ({
  method: 'GET',
  key: /^\?/,
  ...always({
    kind: 'rewrite',
    rewrite: (answer) => ({ ...answer, body: Buffer.from(change(answer.body.toString())) }),
  }),
});

export const table: readonly Row[] = [
  { name: 'answers late', rule: { fault: () => () => answersLate(tenthOfASecond()) }, outcomes: fine },
  { name: 'gets each request twice', rule: always({ kind: 'twice' }), outcomes: fine },
  { name: 'answers 500 once', rule: once(refuses('InternalError')), outcomes: streamsAgain },
  { name: 'asks to slow down once', rule: once(refuses('SlowDown')), outcomes: streamsAgain },
  { name: 'answers 429 for each key once', rule: once(refuses('TooManyRequests')), outcomes: streamsAgain },
  { name: 'does it, and answers 503 once', rule: once(doesAndRefuses('ServiceUnavailable')), outcomes: streamsAgain },
  { name: 'breaks off before it does it, once', rule: once(drops), outcomes: streamsAgain },
  { name: 'does it, and its answer is lost, once', rule: once({ kind: 'swallow' }), outcomes: streamsAgain },
  {
    name: 'breaks off within what it gives, once',
    rule: { method: 'GET', ...once({ kind: 'cut', afterBytes: 50 }) },
    outcomes: fine,
  },
  { name: 'breaks off before it does it', rule: always(drops), outcomes: gone },
  { name: 'answers with something that is no HTTP', rule: always({ kind: 'nonsense' }), outcomes: gone, only: 's3' },
  {
    name: 'answers before it has everything, and hangs up, once',
    rule: once(refuses('SlowDown', { connection: 'close' })),
    outcomes: streamsAgain,
    only: 's3',
  },
  { name: 'answers 503', rule: always(refuses('ServiceUnavailable')), outcomes: gone },
  {
    name: 'says 200, and in the body that it failed',
    rule: { method: 'PUT', ...always(failsWith200('InternalError')) },
    outcomes: nothingTaken(patience),
    only: 's3',
  },
  {
    name: 'says 200 as a proxy does, which stores nothing',
    rule: { method: 'PUT', ...always({ kind: 'answer', status: 200, body: '<html>welcome</html>' }) },
    outcomes: nothingTaken('502 pinning_failed'),
    only: 's3',
  },
  {
    name: 'refuses an object by a condition that nobody made',
    rule: { method: 'PUT', key: data, ...always(refuses('PreconditionFailed')) },
    outcomes: nothingTaken('502 pinning_failed'),
    only: 's3',
  },
  {
    name: 'gives other bytes of files',
    rule: { method: 'GET', key: data, ...always(flips(5)) },
    outcomes: { ...fine, read: '502 content_mismatch', verify: 'lost' },
  },
  {
    name: 'gives another index',
    rule: { method: 'GET', key: index, ...always(flips(40)) },
    outcomes: { ...fine, read: '502 pinning_lost', verify: 'lost' },
  },
  {
    name: 'gives fewer bytes of files',
    rule: { method: 'GET', key: data, ...always(resizes(-1)) },
    outcomes: { ...fine, read: '502 pinning_failed', verify: 'later' },
    only: 's3',
  },
  {
    name: 'gives more bytes of files',
    rule: { method: 'GET', key: data, ...always(resizes(1)) },
    outcomes: { ...fine, read: '502 pinning_failed', verify: 'later' },
    only: 's3',
  },
  {
    name: 'lists what was there before',
    rule: { method: 'GET', key: /^\?/, fault: answersAsBefore },
    outcomes: { ...fine, remove: 'scheduled' },
  },
  {
    name: 'lists what others have in the bucket',
    rule: listings((xml) => xml.replaceAll('sealpin-tested', 'twin')),
    outcomes: { ...fine, remove: 'scheduled' },
    only: 's3',
  },
  {
    name: 'encodes keys wrongly in its listings',
    rule: listings((xml) => xml.replaceAll('<Key>', '<Key>%')),
    outcomes: { ...fine, remove: 'scheduled' },
    only: 's3',
  },
  {
    name: 'only reads',
    rule: changes(refuses('AccessDenied')),
    outcomes: { ...nothingTaken('500 misconfigured'), remove: 'scheduled' },
  },
  {
    name: 'is full',
    rule: { method: 'PUT', key: data, ...always(refuses('QuotaExceeded')) },
    outcomes: nothingTaken('507 disk_full'),
    only: 's3',
  },
  { name: 'has no such bucket', rule: always(refuses('NoSuchBucket')), outcomes: wrong, says: 'bucket' },
  {
    name: 'is in another region',
    rule: always(refuses('AuthorizationHeaderMalformed')),
    outcomes: wrong,
    says: 'region',
    only: 's3',
  },
  {
    name: 'does not know the key',
    rule: always(refuses('InvalidAccessKeyId')),
    outcomes: wrong,
    says: 'access key',
    only: 's3',
  },
  {
    name: 'finds the signature wrong',
    rule: always(refuses('SignatureDoesNotMatch')),
    outcomes: wrong,
    says: 'secret',
    only: 's3',
  },
  {
    name: 'has another time',
    rule: always(refuses('RequestTimeTooSkewed', { date: 'unknown' })),
    outcomes: wrong,
    says: 'the operator must set them',
    only: 's3',
  },
];
