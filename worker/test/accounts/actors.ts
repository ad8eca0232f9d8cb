/**
 * The actors of SECURITY.md, and what of each is tried. A column lists what succeeds of all that is
 * tried in it, in this order.
 */
import { fullScopes, type Scope } from '../../../shared/api.ts';

export const columns = ['withhold', 'roll back', 'swap', 'plant', 'delete'] as const;
export type Column = (typeof columns)[number];

/**
 * Credentials of an actor: with a token of the service, a new key of the account with these scopes,
 * a key of another account, the URL that somebody signed, or nothing.
 */
type As =
  | { token: 'admin' | 'admin+restore' | 'metrics' }
  | { scopes: readonly Scope[] }
  | { signed: 'GET' | 'POST' }
  | 'stranger'
  | 'nobody';

/**
 * `knowsShare`: the IDs of the owner's shares. All IDs of accounts, keys and files are known to
 * everybody here.
 */
export type Actor = { as: As; knowsShare?: true; sees: readonly string[] } & Partial<Record<Column, readonly string[]>>;

/** What any key sees of itself. */
const own = ['maker'];
const about = [...own, 'label', 'age', 'recoveryKey'];
const readable = [
  ...about,
  'usage',
  'privateKey',
  'files',
  'names',
  'plain',
  'sealed',
  'fileEvents',
  'keyUsage',
  'receipt',
];
const administered = ['account', 'accountUsage', 'backup', 'share'];
const managed = ['deny', 'useUp', 'disable'];

/** Actors whose cells are tried in `actors.node.test.ts`, by their names in SECURITY.md. */
export const tried: Readonly<Record<string, readonly Actor[]>> = {
  'Holder of `ADMIN_TOKEN`': [
    { as: { token: 'admin' }, knowsShare: true, sees: administered, withhold: managed, delete: ['account'] },
  ],
  'Holder of `ADMIN_TOKEN` and `RESTORE_TOKEN`': [
    {
      as: { token: 'admin+restore' },
      knowsShare: true,
      sees: administered,
      withhold: managed,
      'roll back': ['restore'],
      swap: ['restoreOther'],
      plant: ['restoreKey'],
      delete: ['account'],
    },
  ],
  'Holder of `METRICS_TOKEN`': [{ as: { token: 'metrics' }, sees: ['metrics'] }],
  'Who has a backup, all rows, or the names in KV': [
    { as: 'nobody', knowsShare: true, sees: ['share'], withhold: ['useUp'] },
  ],
  'Another account, or anyone': [
    { as: 'stranger', sees: [] },
    { as: 'nobody', sees: [] },
  ],
  'API key, `write`': [{ as: { scopes: ['write'] }, sees: [...own, 'label'], plant: ['plain', 'brief', 'encrypted'] }],
  'API key, `send`': [{ as: { scopes: ['send'] }, sees: own, plant: ['plain', 'brief'] }],
  'API key, `read` and `write`': [
    {
      as: { scopes: ['read', 'write'] },
      sees: readable,
      withhold: ['retag'],
      swap: ['rename', 'sealName'],
      plant: ['plain', 'brief', 'encrypted'],
    },
  ],
  'API key, `read`': [{ as: { scopes: ['read'] }, sees: readable }],
  'API key, `delete`': [{ as: { scopes: ['delete'] }, sees: [...own, 'label'], delete: ['file', 'files'] }],
  'API key, `share`': [
    {
      as: { scopes: ['share'] },
      knowsShare: true,
      sees: [...own, 'label', 'shareEvents', 'shares', 'share'],
      withhold: ['useUp', 'shorten', 'revokeShare'],
      plant: ['share', 'prolong'],
      delete: ['share'],
    },
  ],
  'API key, `keys`': [
    {
      as: { scopes: ['keys'] },
      sees: [...about, 'fileEvents', 'keyEvents', 'keys', 'uploads'],
      plant: ['key'],
      delete: ['key', 'upload'],
    },
  ],
  'API key, `read` and `keys`': [
    {
      as: { scopes: ['read', 'keys'] },
      sees: [...readable, 'keyEvents', 'keys', 'uploads'],
      plant: ['key'],
      delete: ['key', 'upload'],
    },
  ],
  'API key with all scopes': [
    {
      as: { scopes: fullScopes },
      knowsShare: true,
      sees: [...readable, 'keyEvents', 'shareEvents', 'keys', 'uploads', 'shares', 'share'],
      withhold: ['useUp', 'shorten', 'revokeShare', 'retag'],
      swap: ['rename', 'sealName'],
      plant: ['plain', 'brief', 'encrypted', 'share', 'prolong', 'key'],
      // The last one revokes the key of the owner.
      delete: ['expiry', 'file', 'files', 'share', 'key', 'upload', 'rotate'],
    },
  ],
  'Anyone with the ID of a share': [{ as: 'nobody', knowsShare: true, sees: ['share'], withhold: ['useUp'] }],
  'Holder of a signed URL': [
    { as: { signed: 'GET' }, sees: ['url'] },
    { as: { signed: 'POST' }, sees: [], plant: ['url'] },
  ],
};

/** Actors whose cells other tests try, of which each is named by its file and its title. */
export const elsewhere: Readonly<Record<string, readonly (readonly [path: string, title: string])[]>> = {
  'Pinning service': [
    ['worker/test/pins/checks.node.test.ts', 'a damaged block is found, and replaced from the other backend'],
    [
      'worker/test/pins/checks.node.test.ts',
      'a backend that gives a wrong block is not asked first again, and is repaired',
    ],
  ],
  'IPFS gateway': [
    ['shared/test/ipfs/gateway.test.ts', 'S64: takes no more than a block from a source that gives one without end'],
    ['client/test/hostile-peers.node.test.ts', 'that send wrong blocks are found out, and another one continues'],
  ],
  'Holder of a link': [
    ['client/test/receiving.node.test.ts', 'a share link opens every file of the parcel, and asks for the record once'],
    ['worker/test/shares/shares.node.test.ts', 'hands its record out as often as it may, and then no more'],
  ],
  'Holder of the recovery key': [
    [
      'worker/test/accounts/recovery.node.test.ts',
      'is recovered by the text of its opened file: one key with all scopes, no other',
    ],
  ],
  'Recipient of a file': [
    [
      'shared/test/crypto/suites/containers.ts',
      ': 1, 2 and 100 recipients can open, a stranger cannot, and no recipient is an error',
    ],
    ['client/test/receiving.node.test.ts', 'a blob link opens the file, whole and in part'],
  ],
  'Who reaches the listener, and is not the proxy': [
    ['cli/test/front/front.test.ts', 'gets no answer, and is in the log once'],
    [
      'cli/test/front/front.test.ts',
      'is not reached past its listener: the runtime has a socket of this user, and wants proof',
    ],
  ],
  'Other users of your machine': [
    [
      'cli/test/files/canary.test.ts',
      'S61: no password, key, API key or plaintext gets into words, logs or the history',
    ],
    ['cli/test/local/parts.test.ts', 'keeps its secrets for its owner only, and the same ones'],
  ],
};

/** Actors of whom no test says anything: what they can do follows from where they are. */
export const untried: readonly string[] = [
  'The proxy of a service on a server',
  'Anyone who can deploy the Worker',
  'Cloudflare',
  'Your own processes, root',
  'Thief of the disk',
  'Network observer',
];
