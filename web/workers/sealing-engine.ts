/**
 * The engine of the pages that send, in a thread of its own: it seals files as they are read, and
 * uploads them. The API key, the file keys and the link's secret are here, in memory, and nowhere
 * else.
 */
import { accountOf } from '../../client/account-key.ts';
import { connect, removeMs } from '../../client/connection.ts';
import { handOver } from '../../client/inboxes.ts';
import { removeAll, sealAndStore, storeAt, type Outgoing } from '../../client/sending.ts';
import { serviceHttp, type Fetch } from '../../client/service-http.ts';
import { shareParcel, shareRecipients, type Shared, type ShareOptions } from '../../client/sharing.ts';
import { detachedPayloadBytes } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { parseLink, printLink, type Link, type Parcel } from '../../shared/link/index.ts';
import type { LinkView, SenderWords, Sending, FormTerms, StoredView } from '../protocol.ts';
import { serveCalls, type Running } from './serve-calls.ts';
import { uploadFetch } from './upload-fetch.ts';

type SignedIn = { readonly service: string; readonly apiKey: string };

/**
 * The last share. `again` shares the same under other terms; `stored`: the files that are in the
 * service for it alone; `openedBefore`: how often those that it replaced were opened, undefined
 * where that is not known.
 */
type Last = {
  readonly shareId: string;
  readonly again: (o: ShareOptions & SenderWords, signal: AbortSignal) => Promise<Shared>;
  readonly stored: readonly { fileId: string }[];
  readonly openedBefore: number | undefined;
};

let account: SignedIn | undefined;
let last: Last | undefined;
let inbox: string | undefined;

function signedIn(): SignedIn {
  if (account === undefined) throw new SealpinError('unauthorized');
  return account;
}

/** Progress within the body that is being sent, and not only between bodies. */
function reportedProgress(
  files: readonly File[],
  { report }: Running,
): { fetch: Fetch; onProgress: (bytes: number) => void } {
  const total = files.reduce((sum, { size }) => sum + detachedPayloadBytes(size), 0);
  let confirmed = 0;
  return {
    fetch: uploadFetch((sent) => report(Math.min(confirmed + sent, total), { total })),
    onProgress(bytes) {
      confirmed = bytes;
      report(bytes, { total, isLast: true });
    },
  };
}

function outgoing(files: readonly File[]): Outgoing[] {
  return files.map((file) => ({ source: file, name: file.name, type: file.type }));
}

function optionsOf({ expiresInMs, opens, password, keys }: FormTerms): ShareOptions {
  return { expiresAt: new Date(Date.now() + expiresInMs), opens, password, to: keys };
}

function view({ link, share }: Shared, { password, keys }: FormTerms): LinkView {
  const needs = password === undefined ? (keys === undefined ? undefined : 'keys') : 'password';
  return { link, opens: share.opensLeft, expiresAt: share.expiresAt, needs };
}

async function signIn({ root, apiKey }: { root: string; apiKey: string }, signal: AbortSignal): ReturnOf<'signIn'> {
  const candidate = { service: root, apiKey: apiKey.trim() };
  const { key } = await accountOf(serviceHttp(candidate), signal);
  account = candidate;
  return { scopes: key.scopes };
}

type ReturnOf<Name extends keyof Sending> = Promise<ReturnType<Sending[Name]>>;

async function sendByLink({ files, terms, words }: Parameters<Sending['send']>[0], running: Running): ReturnOf<'send'> {
  const { signal } = running;
  const { fetch, onProgress } = reportedProgress(files, running);
  const http = serviceHttp({ ...signedIn(), fetch });
  const connection = connect(signedIn());
  const remove = (fileId: string): Promise<unknown> =>
    connection.delete(fileId, { signal: AbortSignal.timeout(removeMs) });
  shareRecipients(optionsOf(terms)); // what is wrong with a password or a key is told before anything is stored
  const stored = await sealAndStore(outgoing(files), {
    ...words,
    store: storeAt(http),
    remove,
    signal,
    onProgress,
  });
  const again: Last['again'] = ({ note, from, ...o }, signal) => {
    const parcel: Parcel = { files: stored.parcel.files, note, from };
    return shareParcel(http, { parcel, files: stored.files.map(({ fileId }) => fileId) }, { ...o, signal });
  };
  try {
    const shared = await again({ ...optionsOf(terms), ...words }, signal);
    last = { shareId: shared.share.id, again, stored: stored.files, openedBefore: 0 };
    return view(shared, terms);
  } catch (error) {
    await removeAll(stored.files, remove);
    throw error;
  }
}

async function change({ terms, words }: Parameters<Sending['change']>[0], signal: AbortSignal): ReturnOf<'change'> {
  const before = lastShare();
  const shared = await before.again({ ...optionsOf(terms), ...words }, signal);
  let opened: number | undefined;
  try {
    opened = await endShare(before.shareId, signal);
  } catch (error) {
    // The share before stays the only one.
    await endShare(shared.share.id, AbortSignal.timeout(removeMs)).catch(() => undefined);
    throw error;
  }
  last = { ...before, shareId: shared.share.id, openedBefore: sum(before.openedBefore, opened) };
  return view(shared, terms);
}

/**
 * Ends a share.
 * @returns how often it was opened; undefined where that is not known, as for one that ended before
 * and was forgotten
 */
async function endShare(shareId: string, signal: AbortSignal): Promise<number | undefined> {
  try {
    return (await connect(signedIn()).unshare(shareId, { signal })).opened;
  } catch (error) {
    if (isSealpinError(error, 'not_found')) return undefined;
    throw error;
  }
}

function sum(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? undefined : one + other;
}

function lastShare(): Last {
  if (last === undefined) throw new SealpinError('not_found');
  return last;
}

async function sendOn(
  { fileId, terms, words }: Parameters<Sending['sendOn']>[0],
  signal: AbortSignal,
): ReturnOf<'sendOn'> {
  const connection = connect(signedIn());
  const again: Last['again'] = (o, signal) => connection.share({ fileId }, { ...o, signal });
  const shared = await again({ ...optionsOf(terms), ...words }, signal);
  last = { shareId: shared.share.id, again, stored: [], openedBefore: 0 };
  return view(shared, terms);
}

async function takeBack(signal: AbortSignal): ReturnOf<'takeBack'> {
  const { shareId, stored, openedBefore } = lastShare();
  const connection = connect(signedIn());
  const opened = sum(openedBefore, await endShare(shareId, signal));
  let isDeleted = stored.length > 0;
  for (const { fileId } of stored)
    await connection.delete(fileId, { signal }).catch(() => {
      isDeleted = false; // a key without `delete`: what stays can be opened by nobody
    });
  last = undefined;
  return { isDeleted, opened };
}

async function listFiles({ cursor }: { cursor?: string | undefined }, signal: AbortSignal): ReturnOf<'list'> {
  const page = await connect(signedIn()).list({ limit: 20, signal, cursor });
  return {
    files: page.files.map(({ fileId, cid, filename, size, createdAt, mode }): StoredView => ({
      fileId,
      cid,
      size,
      createdAt,
      isSealed: mode === 'plain',
      name: filename ?? undefined,
    })),
    cursor: page.cursor,
  };
}

async function findInbox({ text, root }: { text: string; root: string }, signal: AbortSignal): ReturnOf<'findInbox'> {
  const { link } = parseLink(text);
  if (link.kind !== 'inbox') throw new SealpinError('link_invalid', 'it is not the link of an inbox');
  if (link.service !== root) return { host: new URL(link.service).host, address: printLink(link) };
  const { service, apiKey }: Extract<Link, { kind: 'inbox' }> = link;
  const { key } = await accountOf(serviceHttp({ service, apiKey }), signal);
  inbox = printLink(link);
  return { name: key.label };
}

async function deliver({ files, words }: Parameters<Sending['deliver']>[0], running: Running): ReturnOf<'deliver'> {
  if (inbox === undefined) throw new SealpinError('link_invalid');
  const handedOver = await handOver(inbox, outgoing(files), {
    ...words,
    ...reportedProgress(files, running),
    signal: running.signal,
  });
  return { count: handedOver.files.length };
}

serveCalls<Sending>({
  signIn: (argument, { signal }) => signIn(argument, signal),
  send: sendByLink,
  change: (argument, { signal }) => change(argument, signal),
  sendOn: (argument, { signal }) => sendOn(argument, signal),
  takeBack: (_, { signal }) => takeBack(signal),
  list: (argument, { signal }) => listFiles(argument, signal),
  async remove({ fileId }, { signal }) {
    const { key } = await connect(signedIn()).delete(fileId, { signal });
    return { isDestroyed: key === 'destroyed' };
  },
  findInbox: (argument, { signal }) => findInbox(argument, signal),
  deliver,
});
