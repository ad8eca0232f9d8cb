/**
 * The REST API of an IPFS Cluster peer, of which no response is trusted
 * (https://ipfscluster.io/documentation/reference/api/).
 */
import { SealpinError } from '../../../shared/errors.ts';
import { httpClient, isRecord, type HttpOptions, type JsonRecord, type Query } from '../http-client.ts';
import type { HttpFailures } from '../http-failures.ts';

/** Number of peers that hold a pin: a whole number, or -1 for all of them. */
export type Replication = { min: number; max: number };

/**
 * A pin as the peers have agreed on it: a wish, of which each peer has its own progress. `holders`:
 * IDs; none: all peers.
 */
export type AgreedPin = { name: string; min: number; holders: readonly string[] };

/**
 * State of a pin at a peer, by the peer's ID. `status` is one of Cluster's words, possibly an
 * unknown one.
 */
export type PeerStatus = { id: string; status: string; error: string };

/** A peer, and the IDs of all peers that it knows, itself among them. */
export type PeerInfo = { id: string; all: readonly string[]; version: string };

/** `refused`: the message of an error. */
type Answer = { record: JsonRecord } | { refused: string; status: number };

/** `wanted`: the IDs of peers that are to hold a pin before others. */
type Wish = { replication: Replication | undefined; wanted?: readonly string[] };

type AskPeer = (method: string, command: string, signal: AbortSignal, query?: Query) => Promise<Answer>;

/** Go's messages for a connection that cannot be made, or breaks. */
const unreached = /connection refused|connection reset|no such host|no route to host|i\/o timeout|\bEOF$/;

/** Seconds after which a client may retry what failed because a Kubo was away. */
const unreachedRetrySeconds = 5;

/** A response has status 200, or one of the others with an error of Cluster's in it. */
const clusterApi = {
  path: '',
  statuses: [200, 400, 404, 500],
  name: 'the REST API of IPFS Cluster',
  address: 'of the REST API, usually port 9094',
};

export type ClusterRest = ReturnType<typeof clusterRest>;

/** Makes the client of a peer. @param responseMs the longest wait for a response */
export function clusterRest(o: HttpOptions, responseMs: number) {
  const client = httpClient(o, clusterApi);

  const ask: AskPeer = async (method, command, signal, query) => {
    return await client.withTimeout(signal, responseMs, async (limited) => {
      const response = await client.send(command, { method, ...(query && { query }) }, limited);
      const [record = {}] = await client.readRecords(response);
      if (response.status === 200) return { record };
      const { message } = record;
      if (typeof message !== 'string') throw client.notTheApi(`it answered ${response.status} to ${command}`);
      return { refused: message, status: response.status };
    });
  };

  /** The error for a message of a peer, which may be about its Kubo. */
  function refused(message: string): SealpinError {
    // Some peers have not been heard of for a while, or a Kubo is away.
    if (!message.includes('not enough peers') && !unreached.test(message)) return client.refused(message);
    const retryAfterSeconds = unreachedRetrySeconds;
    return new SealpinError('pinning_unavailable', `${o.id}: ${message}`, { retryAfterSeconds });
  }

  function accepted(answer: Answer): JsonRecord {
    if ('record' in answer) return answer.record;
    throw refused(answer.refused);
  }

  return {
    refused,
    ...peerPins(client, ask, accepted),

    /** Has all peers try again what has failed for their pins. @returns when they have begun */
    async recoverAll(signal: AbortSignal): Promise<void> {
      const response = await client.send('pins/recover', { method: 'POST' }, signal);
      // It lists what is tried again, which may be long.
      await response.body?.pipeTo(new WritableStream());
    },

    /**
     * Checks that the peer and its Kubo respond.
     * @returns its ID, those of all peers, and the version of Cluster
     */
    async checkPeer(signal: AbortSignal): Promise<PeerInfo> {
      const { id, ipfs, version, cluster_peers: all } = accepted(await ask('GET', 'id', signal));
      if (!isRecord(ipfs)) throw client.failed('its response to id has no ipfs');
      const { error } = ipfs;
      if (typeof error === 'string' && error !== '')
        throw client.unavailable(`at ${o.url} does not reach its Kubo: ${error}`);
      if (typeof id !== 'string' || typeof version !== 'string')
        throw client.failed('its response to id has no id, or no version');
      return { id, all: idsOf(all), version };
    },
  };
}

/** Makes the functions that ask a peer about pins. */
function peerPins({ failed }: HttpFailures, ask: AskPeer, accepted: (answer: Answer) => JsonRecord) {
  function agreedPin(record: JsonRecord): AgreedPin {
    const { name, replication_factor_min: min, allocations } = record;
    if (typeof name !== 'string' || !Number.isInteger(min)) throw failed('its response does not describe a pin');
    return { name, min: Number(min), holders: idsOf(allocations) };
  }

  /**
   * Asks for the state of a pin at each peer that holds it or will.
   * @param local asks this peer alone, which also knows of pins that are removed
   */
  async function statuses(cid: string, local: boolean, signal: AbortSignal): Promise<PeerStatus[]> {
    return statusesIn(accepted(await ask('GET', `pins/${cid}`, signal, local ? { local: 'true' } : {})), failed);
  }

  /** The pin that the peers have agreed on; undefined where there is none. */
  async function agreed(cid: string, signal: AbortSignal): Promise<AgreedPin | undefined> {
    const answer = await ask('GET', `allocations/${cid}`, signal);
    return 'refused' in answer && answer.status === 404 ? undefined : agreedPin(accepted(answer));
  }

  /**
   * Agrees on a pin, or on another name or other peers for one that is there. @returns at once
   */
  async function pin(cid: string, name: string, o: Wish, signal: AbortSignal): Promise<AgreedPin> {
    const { replication, wanted = [] } = o;
    const query = {
      name,
      mode: 'recursive',
      ...(replication && { 'replication-min': String(replication.min), 'replication-max': String(replication.max) }),
      ...(wanted.length > 0 && { 'user-allocations': wanted.join(',') }),
    };
    return agreedPin(accepted(await ask('POST', `pins/${cid}`, signal, query)));
  }

  /** Has the peers try again what has failed for a pin. @returns at once */
  async function recover(cid: string, signal: AbortSignal): Promise<void> {
    accepted(await ask('POST', `pins/${cid}/recover`, signal));
  }

  /** Agrees on the removal of a pin. @returns at once, with whether there was one */
  async function unpin(cid: string, signal: AbortSignal): Promise<boolean> {
    const answer = await ask('DELETE', `pins/${cid}`, signal);
    if ('refused' in answer && answer.status === 404) return false;
    accepted(answer);
    return true;
  }

  return { statuses, agreed, pin, recover, unpin };
}

function statusesIn({ peer_map: peers }: JsonRecord, failed: HttpFailures['failed']): PeerStatus[] {
  if (!isRecord(peers)) throw failed('its response has no peer_map');
  return Object.entries(peers)
    .map(([id, peer]) => {
      if (!isRecord(peer) || typeof peer['status'] !== 'string') throw failed('its peer_map has no status');
      return { id, status: peer['status'], error: typeof peer['error'] === 'string' ? peer['error'] : '' };
    })
    .filter(({ status }) => status !== 'remote');
}

function idsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((id) => typeof id === 'string') : [];
}

/** Tells whether as many peers hold a pin as it asks for. @param min -1: all of them */
export function isReplicated(peers: readonly PeerStatus[], min: number): boolean {
  const holders = peers.filter(({ status }) => status === 'pinned').length;
  return holders > 0 && holders >= (min > 0 ? min : peers.length);
}
