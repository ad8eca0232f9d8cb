/**
 * The adapter for the IPFS Pinning Service API 1.0.0
 * (https://ipfs.github.io/pinning-services-api-spec/). It moves no bytes: the service fetches a
 * file over the network of IPFS, from the addresses that the operator names or from where it finds
 * it.
 */
import * as v from 'valibot';
import { SealpinError } from '../../../shared/errors.ts';
import type { Adapter, HostedService } from '../contract.ts';
import {
  httpClient,
  isRecord,
  type HttpClient,
  type HttpOptions,
  type JsonRecord,
  type Query,
  type Request,
} from '../http-client.ts';
import type { HttpFailures } from '../http-failures.ts';
import { printable } from '../printable.ts';
import { cancelQuietly } from '../../../shared/streams/cancel-quietly.ts';
import { sleep } from '../../../shared/streams/timing.ts';
import { apiFields, authorized, unknownField } from '../option-fields.ts';
import { timeLimit } from '../time-limit.ts';

/** The most that the specification lets a pin have. */
const mostOrigins = 20;
const message =
  `origins must be a list of at most ${mostOrigins} multiaddresses, such as ` +
  '/dns4/kubo.example.com/tcp/4001/p2p/12D3…';

const PsaOrigin = v.pipe(v.string(message), v.regex(/^\/[\x21-\x7e]+\/p2p\/[a-zA-Z0-9]+$/, message));

const PsaFields = v.strictObject(
  {
    ...apiFields,
    origins: v.pipe(v.optional(v.array(PsaOrigin, message), []), v.maxLength(mostOrigins, message)),
  },
  unknownField,
);

/** Pinning Service API, configured by `{"url", "tokenSecret"?, "headers"?, "origins"?}`. */
export const psaAdapter: Adapter<typeof PsaFields> = {
  options: PsaFields,
  triedAgainst: 'the API of IPFS Cluster 1.1.6, and the server of Helia 1.0.4; no hosted service',
  // Each token is an account.
  places: ({ url, tokenSecret = '' }) => [`${url} ${tokenSecret}`],
  make: ({ url, tokenSecret, headers, origins }, context) =>
    psa({ ...context, url, headers: authorized(headers, tokenSecret, context), origins }),
};

export type PsaOptions = HttpOptions & {
  /** The name of this service's pins: `sealpin:` and its id, at most 80 bytes of ASCII. */
  pinName: string;
  /** Multiaddresses from which the service can fetch files. */
  origins: readonly string[];
  /** The longest wait for a response, in ms: 30 s. */
  responseMs?: number;
};

/** A pin as the service lists it. */
type ListedPin = {
  requestId: string;
  cid: string;
  name: string | undefined;
  status: string;
  details: string;
  createdMs: number;
};

type IsPin = (pin: ListedPin) => boolean;

const psaApi = {
  path: '',
  statuses: [200, 202, 400, 404, 409],
  name: 'an IPFS Pinning Service API',
  address: 'without /pins at its end',
};

/** All of them: by default a service lists what is pinned. */
const everyStatus = 'queued,pinning,pinned,failed';
/** Pins that are asked for at once; by default a service lists 10. */
const pagePins = 100;
/** The largest response: a page of pins with 20 origins and delegates each, of 200 bytes. */
const maxResponseBytes = 1_048_576;
/** Pages that are read of the requests for one CID; a service that lists more is not believed. */
const maxPages = 100;
const unfiltered =
  'the pinning service does not filter its pins by CID, and has too many to be asked for one: the operator must ' +
  'choose another one, or remove pins there';
const nameless =
  'the pinning service changes the CIDs or names of pins, so that ours are not found there: the operator must choose ' +
  'another one';
/** Time limit for having a file held, with all questions that it takes, in ms. */
const holdMs = 60_000;
/** Questions whether a removed pin is gone, and the wait between them, in ms. */
const removal = { asks: 8, everyMs: 250 };

/** A service that pins by CID. */
export function psa(o: PsaOptions): HostedService {
  const { responseMs = 30_000, pinName, origins } = o;
  const client = httpClient(o, psaApi);
  const requests = pinRequests(client, responseMs);
  const { page, listUpTo, request, remove } = requests;
  const isOurs: IsPin = ({ name }) => name === pinName;
  // One that failed says nothing of an older one.
  const isDecisive: IsPin = (pin) => isOurs(pin) && pin.status !== 'failed';
  const list = (cid: string, signal: AbortSignal) => listUpTo(isDecisive, cid, signal);

  return {
    id: o.id,
    takes: 'files',

    async hold({ cid }, interruption) {
      const signal = AbortSignal.any([interruption, timeLimit(holdMs)]);
      const all = await list(cid, signal);
      const mine = all.filter(isOurs);
      if (mine.some(({ status }) => status === 'pinned')) return 'held';
      const failed = mine.filter(({ status }) => status === 'failed');
      if (failed.length < mine.length) return 'pending';
      if (failed[0] !== undefined) {
        // The next attempt requests it again.
        for (const each of failed) await remove(each, signal);
        throw client.failed(`it did not get ${cid}${failed[0].details && `: ${failed[0].details}`}`);
      }
      // A request would take over the pin, and its removal would remove it for everybody.
      if (all.some(({ requestId }) => requestId === cid))
        throw client.failed(`it has one pin for each CID, and that of ${cid} has another name`);
      signal.throwIfAborted();
      // It is not interrupted: a request must not arrive after its removal.
      const json = { cid, name: pinName, ...(origins.length > 0 && { origins }) };
      const { signal: uninterrupted } = new AbortController();
      const told = await request(json, uninterrupted);
      // The answer may leave the name out.
      const isUnnamed = told.cid === cid && told.name === undefined;
      const made = isUnnamed ? (await list(cid, signal)).find(({ requestId }) => requestId === told.requestId) : told;
      // What it says of its own request is no list yet: the next attempt asks what it holds.
      if (made === undefined || (made.cid === cid && isOurs(made))) return 'requested';
      // It would be found under neither, and so never be removed.
      await remove(made, uninterrupted);
      const has = `${printable(made.cid)} as ${printable(made.name ?? 'nothing')}`;
      throw client.misconfigured(`it was asked to pin ${cid} as ${pinName}, and has pinned ${has}`, nameless);
    },

    async stat(cid, signal) {
      const statuses = (await list(cid, signal)).filter(isOurs).map(({ status }) => status);
      if (statuses.includes('pinned')) return 'held';
      return statuses.some((status) => status !== 'failed') ? 'pending' : 'absent';
    },

    unpin: (cid, signal) => removed({ ...requests, id: o.id, isOurs }, cid, signal),

    async ping(signal) {
      await page({ limit: '1' }, signal);
      return {};
    },
  };
}

/** Removes our pins of a CID, and asks until none is listed. */
async function removed(
  o: ReturnType<typeof pinRequests> & { id: string; isOurs: IsPin },
  cid: string,
  signal: AbortSignal,
) {
  const done = new Set<string>();
  for (let asked = 0; asked <= removal.asks; asked += 1) {
    const mine = (await o.listUpTo(o.isOurs, cid, signal)).filter(o.isOurs);
    if (mine.length === 0) return done.size === 0 ? 'absent' : 'removed';
    const others = mine.filter(({ requestId }) => !done.has(requestId));
    for (const each of others) {
      await o.remove(each, signal);
      done.add(each.requestId);
    }
    if (others.length === 0) await sleep(removal.everyMs, signal);
  }
  throw new SealpinError('pinning_timeout', `${o.id} still lists ${cid}, which it was asked to remove`);
}

/** Makes the functions that list, request and remove pins. */
function pinRequests(client: HttpClient, responseMs: number) {
  /** Asks, and gives the JSON of a response, if it has some. */
  async function ask(method: string, path: string, signal: AbortSignal, request: Omit<Request, 'method'> = {}) {
    return await client.withTimeout(signal, responseMs, async (limited) => {
      const response = await client.send(path, { method, ...request }, limited);
      if (method === 'DELETE' && response.ok) {
        await cancelQuietly(response.body);
        return {};
      }
      const record = await client.readRecord(response, maxResponseBytes);
      return response.ok ? record : readError(client, response.status, record, method, path);
    });
  }

  /** A page of what is requested, the newest first. @param query which of it */
  async function page(query: Query, signal: AbortSignal) {
    const { count, results } = await ask('GET', 'pins', signal, { query });
    if (!Array.isArray(results)) throw client.failed('its response to pins has no results');
    const listed = results.map((each) => listedOf(client, each));
    return { listed, isLast: typeof count !== 'number' || count <= results.length };
  }

  /**
   * Lists the requests for a CID, also those of others, the newest first. A service that lists
   * other CIDs as well is read page by page, up to one with a request that is enough.
   * @throws misconfigured where it lists other CIDs, and not all that it has
   */
  async function listUpTo(isEnough: IsPin, cid: string, signal: AbortSignal): Promise<ListedPin[]> {
    const found = new Map<string, ListedPin>();
    const query: Query = { cid, status: everyStatus, limit: String(pagePins) };
    for (let pages = 0; ; pages += 1) {
      if (pages === maxPages) throw client.misconfigured(`it lists more than ${maxPages} pages for ${cid}`, unfiltered);
      const known = found.size;
      const { listed, isLast } = await page(query, signal);
      for (const each of listed) found.set(each.requestId, each);
      const oldestMs = Math.min(...listed.map(({ createdMs }) => createdMs));
      const hasEnough = listed.some((each) => each.cid === cid && isEnough(each));
      if (hasEnough || isLast) break;
      if (found.size === known || Number.isNaN(oldestMs)) {
        if (listed.every((each) => each.cid === cid)) break;
        throw client.misconfigured('its list of pins cannot be read to its end', unfiltered);
      }
      // Others may be of the same millisecond, which `before` leaves out.
      query['before'] = new Date(oldestMs + 1).toISOString();
    }
    return [...found.values()].filter((each) => each.cid === cid);
  }

  /** Requests a pin. @returns what the service says of it */
  async function request(json: object, signal: AbortSignal): Promise<ListedPin> {
    return listedOf(client, await ask('POST', 'pins', signal, { json }));
  }

  async function remove({ requestId }: ListedPin, signal: AbortSignal): Promise<void> {
    await ask('DELETE', `pins/${encodeURIComponent(requestId)}`, signal);
  }

  return { page, listUpTo, request, remove };
}

/** Reads a response that reports an error. */
function readError(client: HttpFailures, status: number, record: JsonRecord, method: string, path: string): JsonRecord {
  const { error } = record;
  if (!isRecord(error) || typeof error['reason'] !== 'string')
    throw client.notTheApi(`it answered ${status} to ${method} ${path}`);
  const { reason, details } = error;
  const message = `${status} ${reason}${typeof details === 'string' ? `: ${details}` : ''}`;
  if (status === 404 && method === 'DELETE') return {};
  if (status === 409) throw client.exhausted(message);
  throw client.failed(message);
}

function listedOf({ failed }: HttpFailures, value: unknown): ListedPin {
  const { requestid, status, created, pin, info } = isRecord(value) ? value : {};
  if (typeof requestid !== 'string' || requestid === '' || typeof status !== 'string' || !isRecord(pin))
    throw failed('its response does not describe a pin');
  const { cid, name } = pin;
  if (typeof cid !== 'string') throw failed('its response has a pin without CID');
  const details = isRecord(info) && typeof info['status_details'] === 'string' ? info['status_details'] : '';
  const createdMs = typeof created === 'string' ? Date.parse(created) : NaN;
  return { requestId: requestid, cid, name: typeof name === 'string' ? name : undefined, status, details, createdMs };
}
