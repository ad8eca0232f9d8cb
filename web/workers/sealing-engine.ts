/**
 * The engine of the pages that send, in a thread of its own: it seals files as they are read, and
 * uploads them. The API key, the file keys and the link's secret are here, in memory, and nowhere
 * else.
 */
import { accountOf } from '../../client/account-key.ts';
import { shareStored } from '../../client/connection.ts';
import { identitiesOf } from '../../client/credentials.ts';
import { handOver, isDelivery } from '../../client/inboxes.ts';
import { removeAt, type Outgoing } from '../../client/sending.ts';
import { serviceHttp, type Fetch, type ServiceHttp } from '../../client/service-http.ts';
import { changeShare, revokeShare, sendFiles, sharesPage } from '../../client/sharing.ts';
import type { Shared, ShareOptions } from '../../client/sharing.ts';
import { FileList, Receipt } from '../../shared/api.ts';
import { detachedPayloadBytes, type Identity } from '../../shared/crypto/index.ts';
import { isSealpinError, otherwise, SealpinError } from '../../shared/errors.ts';
import { openFileDetails, parseLinkOf, printLink } from '../../shared/link/index.ts';
import type { FileToSend, FolderToSend, FormTerms, LinkView, Sending, StoredView } from '../protocol.ts';
import { dayMs } from '../../shared/time.ts';
import { chunksOf } from '../../shared/streams/read-all.ts';
import { pulled } from '../../shared/streams/pulled.ts';
import { serveCalls, type Running } from './serve-calls.ts';
import { signedIn, signIn, useAccount } from './signed-in.ts';
import { uploadFetch } from './upload-fetch.ts';
import { safeNames, zipBytes, zipped, type ZipEntry } from './zip.ts';
import { bytesOfBase64 } from '../../client/web-bytes.ts';

/** IDs of the files that the service has for a share alone, by the shares that were made here. */
const storedFor = new Map<string, readonly string[]>();
let inbox: string | undefined;
/** What the page asks for, but for what it sends. A whole `connect` would be larger. */
const http = (): ServiceHttp => serviceHttp(signedIn());
/** The private key that opens names, where its owner gave it to the page. */
let identities: readonly Identity[] | undefined;

/** Progress within the body that is being sent, and not only between bodies. */
function reportedProgress(
  files: readonly FileToSend[],
  { report }: Running,
): { fetch: Fetch; onProgress: (bytes: number) => void } {
  let total = 0;
  const ends = files.map((file) => {
    total += detachedPayloadBytes(file instanceof File ? file.size : zipBytes(zipEntriesOf(file)));
    return total;
  });
  const at = (bytes: number) => {
    const file = ends.findIndex((end) => bytes < end);
    return { total, file: file < 0 ? files.length - 1 : file };
  };
  let confirmed = 0;
  return {
    fetch: uploadFetch((sent) => {
      const bytes = Math.min(confirmed + sent, total);
      report(bytes, at(bytes));
    }),
    onProgress(bytes) {
      confirmed = bytes;
      report(bytes, { ...at(bytes), isLast: true });
    },
  };
}

function zipEntriesOf({ files }: FolderToSend): ZipEntry[] {
  const names = safeNames(files.map(({ path }) => path));
  return files.map(({ file }, index) => ({
    name: names[index] ?? '',
    size: file.size,
    modified: new Date(file.lastModified),
    read: () => chunksOf(file.stream()),
  }));
}

/** A folder becomes an archive while it is sent. */
function outgoing(files: readonly FileToSend[]): Outgoing[] {
  return files.map((file) => {
    if (file instanceof File) return { source: file, name: file.name, type: file.type };
    const entries = zipEntriesOf(file);
    const chunks = zipped(entries);
    const source = pulled({ next: async () => (await chunks.next()).value, cancel: () => chunks.return(undefined) });
    return { source, name: file.name, type: 'application/zip', size: zipBytes(entries) };
  });
}

/** Options of a share. Its time counts from when it is made: a slow upload takes hours. */
function optionsOf({ expiresInMs, opens, password, keys }: FormTerms): ShareOptions {
  return {
    get expiresAt() {
      return new Date(Date.now() + expiresInMs);
    },
    opens,
    password,
    to: keys,
  };
}

function view({ link, share }: Shared, { password, keys }: FormTerms): LinkView {
  const needs = password === undefined ? (keys === undefined ? undefined : 'keys') : 'password';
  const { id: shareId, createdAt, opensLeft: opens, expiresAt } = share;
  return { link, shareId, createdAt, opens, expiresAt, needs };
}

/**
 * Returns the end of what is stored for a link; undefined where it has none. A guest's link lasts
 * no longer than that, and a slow upload takes hours.
 */
function storedUntil({ expiresInMs }: FormTerms): Date | undefined {
  const { until } = signedIn();
  return until === undefined ? undefined : new Date(Math.min(Date.now() + Math.max(expiresInMs, dayMs), until));
}

/** The name of a file that was sealed before it came, where there is a key that opens it. */
async function sealedName(cid: string, details = ''): Promise<Pick<StoredView, 'name' | 'sealedName'>> {
  if (details === '') return {};
  if (identities === undefined) return { sealedName: 'closed' };
  try {
    const { name } = await openFileDetails(bytesOfBase64(details), { cid, identities });
    return { name, sealedName: 'open' };
  } catch (error) {
    // Another key may open it, and what is damaged has no name either.
    return { sealedName: isSealpinError(error, 'content_mismatch') ? 'foreign' : 'closed' };
  }
}

serveCalls<Sending>({
  signIn,
  async send({ files, terms, words }, running) {
    const { fetch, onProgress } = reportedProgress(files, running);
    // A copy of the options would fix their time now.
    const options = Object.assign(optionsOf(terms), { ...words, signal: running.signal, onProgress });
    const sent = await sendFiles(serviceHttp({ ...signedIn(), fetch }), outgoing(files), options, {
      expiresAt: storedUntil(terms),
    });
    const stored = sent.files.map(({ fileId }) => fileId);
    storedFor.set(sent.share.id, stored);
    return view(sent, terms);
  },
  async sendOn({ fileId, terms, words }, { signal }) {
    const options = { ...optionsOf(terms), ...words, signal };
    const shared = await shareStored(http(), signedIn().apiKey, { fileId }, options);
    return view(shared, terms);
  },
  async takeBack({ shareId }, { signal }) {
    const stored = storedFor.get(shareId) ?? [];
    const own = http();
    // The same key made it: what it does not know any more has ended.
    const ended = await otherwise(revokeShare(own, shareId, signal), 'not_found', undefined);
    let isDeleted = stored.length > 0;
    if (isDeleted && ended?.files === undefined)
      await removeAt(own, stored, signal).catch(() => {
        isDeleted = false; // a key without `delete`: what stays can be opened by nobody
      });
    return { isDeleted, opened: ended?.opened };
  },
  async accept({ text, root }, { signal }) {
    const link = parseLinkOf(text, 'invitation').link;
    const { service, apiKey } = link;
    if (service !== root) return { host: new URL(service).host, address: printLink(link) };
    const { key } = await accountOf(serviceHttp({ service, apiKey }), signal);
    if (!key.scopes.includes('send')) throw new SealpinError('link_invalid');
    const { expiresAt, left } = key;
    useAccount({ service, apiKey, until: expiresAt === undefined ? Infinity : Date.parse(expiresAt) });
    return { expiresAt, files: left?.files, bytes: left?.bytes };
  },
  async links({ cursor }, { signal }) {
    const page = await sharesPage(http(), { limit: 20, signal, cursor });
    const links = page.shares.map(({ id: shareId, files, opensLeft, ...share }) => ({
      ...share,
      shareId,
      opened: share.opens - opensLeft,
      files: files.length,
    }));
    return { links, cursor: page.cursor };
  },
  async takeBackLink({ shareId }, { signal }) {
    await revokeShare(http(), shareId, signal);
  },
  async changeLink({ shareId, opens, expiresInMs }, { signal }) {
    const expiresAt = expiresInMs === undefined ? undefined : new Date(Date.now() + expiresInMs);
    return await changeShare(http(), shareId, { opens, expiresAt, signal });
  },
  async list({ cursor }, { signal }) {
    const page = await http().json(FileList, { path: 'v1/storage', query: { limit: 20, cursor }, signal });
    const files = page.files.map(
      async ({ fileId, cid, filename, size, createdAt, mode, contentType, details }): Promise<StoredView> => ({
        fileId,
        cid,
        size,
        createdAt,
        isPlain: mode === 'plain',
        isDelivery: isDelivery({ mode, contentType }),
        ...(filename === null || filename === undefined ? await sealedName(cid, details) : { name: filename }),
      }),
    );
    return { files: await Promise.all(files), cursor: page.cursor };
  },
  async useKey({ keys }) {
    identities = identitiesOf({ keys });
  },
  async remove({ fileId }, { signal }) {
    const path = `v1/storage/${encodeURIComponent(fileId)}`;
    const { key } = await http().json(Receipt, { method: 'DELETE', path, signal });
    return { isDestroyed: key === 'destroyed' };
  },
  async findInbox({ text, root }, { signal }) {
    const link = parseLinkOf(text, 'inbox').link;
    const { service, apiKey } = link;
    if (service !== root) return { host: new URL(service).host, address: printLink(link) };
    const { key } = await accountOf(serviceHttp({ service, apiKey }), signal);
    inbox = printLink(link);
    const { expiresAt, left, limits } = key;
    // A delivery is one more than its files: the list of them.
    const files = left?.files === undefined ? undefined : Math.max(0, left.files - 1);
    return { name: key.label, expiresAt, files, bytes: left?.bytes, fileBytes: limits?.fileBytes };
  },
  async deliver({ files, words }, running) {
    if (inbox === undefined) throw new SealpinError('link_invalid');
    const options = { ...words, ...reportedProgress(files, running), signal: running.signal };
    const handedOver = await handOver(inbox, outgoing(files), options);
    return { count: handedOver.files.length };
  },
});
