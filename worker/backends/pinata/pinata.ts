/**
 * The adapter for Pinata's API v3 (https://docs.pinata.cloud/api-reference): a file goes there as
 * one CAR by tus, is processed after the answer, and is named by an id of its own. We find ours by
 * a name with its CID in it.
 */
import * as v from 'valibot';
import { SealpinError } from '../../../shared/errors.ts';
import { carType, carLength, carOf } from '../../../shared/ipfs/index.ts';
import type { Adapter, HostedService, SourceFile } from '../contract.ts';
import { httpClient, isRecord, type HttpClient, type HttpOptions, type Query } from '../http-client.ts';
import { cancelQuietly } from '../../../shared/streams/cancel-quietly.ts';
import { observed } from '../../../shared/streams/pulled.ts';
import { sleep } from '../../../shared/streams/timing.ts';
import { addressField, authorized, headersField, secretField, unknownField } from '../option-fields.ts';
import { sourceError } from '../source-error.ts';
import { tusUpload } from './tus-upload.ts';

const addressOf = (field: string, usual: string) =>
  v.pipe(v.optional(v.unknown(), usual), addressField(field, 'tokenSecret'));

const PinataFields = v.strictObject(
  {
    url: addressOf('url', 'https://api.pinata.cloud/v3'),
    uploads: addressOf('uploads', 'https://uploads.pinata.cloud/v3'),
    tokenSecret: secretField('tokenSecret'),
    headers: headersField,
  },
  unknownField,
);

/** Pinata account, configured by `{"tokenSecret", "headers"?, "url"?, "uploads"?}`. */
export const pinataAdapter: Adapter<typeof PinataFields> = {
  options: PinataFields,
  triedAgainst: "tusd and a server made of Pinata's OpenAPI documents; not Pinata itself",
  places: ({ url, tokenSecret = '' }) => [`${url} ${tokenSecret}`],
  make({ url, uploads, tokenSecret, headers }, context) {
    if (tokenSecret === undefined) throw context.misconfigured('tokenSecret must be the name of a secret');
    return pinata({ ...context, url, uploads, headers: authorized(headers, tokenSecret, context) });
  },
};

export type PinataOptions = Omit<HttpOptions, 'url'> & {
  /**
   * The roots of the API and of uploads, as `https://api.pinata.cloud/v3` and
   * `https://uploads.pinata.cloud/v3`.
   */
  url: string;
  uploads: string;
  /** The beginning of the names of our files: `sealpin:` and the id of this service. */
  pinName: string;
  /** The longest wait for a response, in ms: 30 s. */
  responseMs?: number;
  /** Bytes of one request of an upload: 16 MiB. The service takes less than 50 MB. */
  pieceBytes?: number;
  /** The wait between two questions for a file that was just sent, in ms: 2 s. */
  seenMs?: number;
};

const pinataApi = {
  path: '',
  statuses: [200, 404],
  name: 'the API of Pinata',
  address: 'usually https://api.pinata.cloud/v3',
};

/** The largest CAR: what goes out within the time that an alarm has, 15 minutes, at 2.5 MB/s. */
const maxCarBytes = 2 * 2 ** 30;
/** The longest wait for one block, in ms. */
const pinataBlockMs = 30_000;
/** Number of times the service is asked for a file that was just sent or deleted. */
const asks = 5;

type ListedFile = { id: string; cid: string | undefined; name: string | undefined };

/** A service with Pinata's API. */
export function pinata(o: PinataOptions): HostedService {
  const { pinName, responseMs = 30_000, pieceBytes = 16 * 2 ** 20, seenMs = 2000 } = o;
  const client = httpClient(o, pinataApi);
  const nameOf = (cid: string): string => `${pinName}:${cid}`;
  const { list, remove, ...files } = fileRequests(client, responseMs);
  const ours = (cid: string, signal: AbortSignal) => files.ours(cid, nameOf(cid), signal);

  async function state(cid: string, signal: AbortSignal): Promise<'held' | 'pending' | 'absent'> {
    const { held, pending } = await ours(cid, signal);
    if (held.length > 0) return 'held';
    return pending.length > 0 ? 'pending' : 'absent';
  }

  return {
    id: o.id,
    takes: 'files',
    stat: state,

    async hold(file, signal) {
      const { cid } = file;
      const known = await ours(cid, signal);
      if (known.held.length > 0) return 'held';
      if (known.pending.length > 0) return 'pending';
      if (known.wrong[0] !== undefined) {
        await remove(known.wrong, signal);
        throw client.failed(`it made ${known.wrong[0].cid} of a CAR of ${cid}`);
      }
      await sendCar({ ...o, pieceBytes, responseMs }, file, nameOf(cid), signal);
      for (let asked = 0; asked < asks; asked += 1) {
        const seen = await state(cid, signal);
        if (seen !== 'absent') return seen;
        await sleep(seenMs, signal);
      }
      throw client.failed(`it does not list ${cid}, of which it has just taken a CAR`);
    },

    async unpin(cid, signal) {
      for (let asked = 0; asked < asks; asked += 1) {
        const { held, pending, wrong } = await ours(cid, signal);
        const all = [...held, ...pending, ...wrong];
        if (all.length === 0) return asked === 0 ? 'absent' : 'removed';
        // One that it still lists is no longer there to be removed.
        await remove(all, signal);
        if (asked > 0) await sleep(seenMs, signal);
      }
      throw new SealpinError('pinning_timeout', `${o.id} still lists ${cid}, which it was asked to delete`);
    },

    async ping(signal) {
      await list({ limit: '1' }, signal);
      return {};
    },
  };
}

/** Makes the functions that list and remove files. */
function fileRequests(client: HttpClient, responseMs: number) {
  async function ask(method: string, path: string, signal: AbortSignal, query: Query = {}) {
    return await client.withTimeout(signal, responseMs, async (limited) => {
      const response = await client.send(path, { method, query }, limited);
      if (response.status === 404 || method === 'DELETE') {
        await cancelQuietly(response.body);
        return undefined;
      }
      return await client.readRecord(response);
    });
  }

  async function list(query: Query, signal: AbortSignal): Promise<ListedFile[]> {
    const answer = await ask('GET', 'files/public', signal, query);
    if (answer === undefined) throw client.notTheApi('it has no files/public');
    const { data } = answer;
    // Where there are none, the list may be null.
    const files = isRecord(data) ? (data['files'] ?? []) : undefined;
    if (!Array.isArray(files)) throw client.failed('its response has no files');
    return files.map((file: unknown) => {
      const { id, cid, name } = isRecord(file) ? file : {};
      if (typeof id !== 'string' || id === '') throw client.failed('its response has a file without id');
      return { id, cid: typeof cid === 'string' ? cid : undefined, name: typeof name === 'string' ? name : undefined };
    });
  }

  /**
   * The files of a name that stands for a CID: those that are there, and those that the service has
   * not given a CID yet.
   */
  async function ours(cid: string, name: string, signal: AbortSignal) {
    const [listed, waiting] = await Promise.all([list({ name }, signal), list({ name, cidPending: 'true' }, signal)]);
    const mine = new Map([...waiting, ...listed].filter((file) => file.name === name).map((file) => [file.id, file]));
    const all = [...mine.values()];
    return {
      held: all.filter((file) => file.cid === cid),
      pending: all.filter((file) => file.cid === undefined || file.cid === ''),
      wrong: all.filter((file) => file.cid !== undefined && file.cid !== '' && file.cid !== cid),
    };
  }

  async function remove(files: readonly ListedFile[], signal: AbortSignal): Promise<void> {
    for (const { id } of files) await ask('DELETE', `files/public/${encodeURIComponent(id)}`, signal);
  }

  return { list, ours, remove };
}

/** Sends a file as one CAR. @throws too_large */
async function sendCar(
  o: PinataOptions & { pieceBytes: number; responseMs: number },
  { cid, sources, onMismatch }: SourceFile,
  filename: string,
  signal: AbortSignal,
): Promise<void> {
  const options = {
    signal,
    limits: { idleMs: pinataBlockMs },
    onMismatch: ({ id }: { id: string }) => onMismatch(id),
  };
  const length = await carLength(cid, sources, options).catch((error: unknown) => {
    throw sourceError(error);
  });
  if (length > maxCarBytes)
    throw new SealpinError('too_large', `${cid} is larger than what is sent to ${o.id}: ${maxCarBytes} bytes`);
  const metadata = { filename, filetype: carType, network: 'public', car: 'true' };
  const { id, headers, fetch, pieceBytes, responseMs } = o;
  const target = { id, headers, fetch, url: `${o.uploads}/files`, pieceBytes, responseMs };
  const body = observed(carOf(cid, sources, { ...options, dups: false }), { onFail: sourceError });
  await tusUpload(target, { body, length, metadata }, signal);
}
