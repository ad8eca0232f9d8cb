/** The REST API of an IPFS Cluster peer, of which no response is trusted (https://ipfscluster.io/documentation/reference/api/). */
import { SealpinError } from '../../shared/errors.ts';
import { httpClient, isRecord, type HttpOptions, type JsonRecord } from './http-client.ts';

/** On how many peers a pin is to be: a whole number, or -1 for all of them. */
export type Replication = { min: number; max: number };

/** A pin as the peers have agreed on it: a wish, of which each peer has its own progress. */
export type AgreedPin = { name: string; min: number };

/** How far a peer is with a pin. `status` is a word of Cluster's, possibly one that is not known here. */
export type PeerStatus = { status: string; error: string };

/** `refused`: the message of an error. */
type Answer = { record: JsonRecord } | { refused: string; status: number };

/** A response has status 200, or one of the others with an error of Cluster's in it. */
const api = {
  path: '',
  statuses: [200, 400, 404, 500],
  name: 'the REST API of IPFS Cluster',
  address: 'of the REST API, usually port 9094',
};

export type ClusterRest = ReturnType<typeof clusterRest>;

/** Makes the client of a peer. @param responseMs the longest wait for a response */
export function clusterRest(o: HttpOptions, responseMs: number) {
  const client = httpClient(o, api);

  async function ask(
    method: string,
    command: string,
    signal: AbortSignal,
    query?: Record<string, string>,
  ): Promise<Answer> {
    return await client.withTimeout(signal, responseMs, async (limited) => {
      const response = await client.send(command, { method, ...(query && { query }) }, limited);
      const [record = {}] = await client.readRecords(response);
      if (response.status === 200) return { record };
      const { message } = record;
      if (typeof message !== 'string') throw client.notTheApi(`it answered ${response.status} to ${command}`);
      return { refused: message, status: response.status };
    });
  }

  function accepted(answer: Answer): JsonRecord {
    if ('record' in answer) return answer.record;
    // Some peers have not been heard of for a while.
    if (answer.refused.includes('not enough peers'))
      throw new SealpinError('pinning_unavailable', `${o.id}: ${answer.refused}`);
    throw client.refused(answer.refused);
  }

  function agreedPin(record: JsonRecord): AgreedPin {
    const { name, replication_factor_min: min } = record;
    if (typeof name !== 'string' || !Number.isInteger(min)) throw client.failed('its response does not describe a pin');
    return { name, min: Number(min) };
  }

  /** How far each peer is that is to hold the pin. @param local asks this peer alone, which also knows of pins that are removed */
  async function statuses(cid: string, local: boolean, signal: AbortSignal): Promise<PeerStatus[]> {
    const answer = await ask('GET', `pins/${cid}`, signal, local ? { local: 'true' } : {});
    const { peer_map: peers } = accepted(answer);
    if (!isRecord(peers)) throw client.failed('its response has no peer_map');
    return Object.values(peers)
      .map((peer) => {
        if (!isRecord(peer) || typeof peer['status'] !== 'string') throw client.failed('its peer_map has no status');
        return { status: peer['status'], error: typeof peer['error'] === 'string' ? peer['error'] : '' };
      })
      .filter(({ status }) => status !== 'remote');
  }

  return {
    statuses,
    failed: client.failed,
    refused: client.refused,

    /** The pin that the peers have agreed on; undefined where there is none. */
    async agreed(cid: string, signal: AbortSignal): Promise<AgreedPin | undefined> {
      const answer = await ask('GET', `allocations/${cid}`, signal);
      return 'refused' in answer && answer.status === 404 ? undefined : agreedPin(accepted(answer));
    },

    /** Agrees on a pin, or on another name or other peers for one that is there. @returns at once */
    async pin(
      cid: string,
      name: string,
      replication: Replication | undefined,
      signal: AbortSignal,
    ): Promise<AgreedPin> {
      const factors = replication && {
        'replication-min': String(replication.min),
        'replication-max': String(replication.max),
      };
      return agreedPin(accepted(await ask('POST', `pins/${cid}`, signal, { name, mode: 'recursive', ...factors })));
    },

    /** Has the peers try again what has failed for a pin. @returns at once */
    async recover(cid: string, signal: AbortSignal): Promise<void> {
      accepted(await ask('POST', `pins/${cid}/recover`, signal));
    },

    /** Agrees on the removal of a pin. @returns at once, with whether there was one */
    async unpin(cid: string, signal: AbortSignal): Promise<boolean> {
      const answer = await ask('DELETE', `pins/${cid}`, signal);
      if ('refused' in answer && answer.status === 404) return false;
      accepted(answer);
      return true;
    },

    /** Checks that the peer and its Kubo respond. */
    async checkPeer(signal: AbortSignal): Promise<void> {
      const { ipfs } = accepted(await ask('GET', 'id', signal));
      if (!isRecord(ipfs)) throw client.failed('its response to id has no ipfs');
      const { error } = ipfs;
      if (typeof error === 'string' && error !== '')
        throw client.unavailable(`at ${o.url} does not reach its Kubo: ${error}`);
    },

    async version(signal: AbortSignal): Promise<string> {
      const { version } = accepted(await ask('GET', 'version', signal));
      if (typeof version !== 'string') throw client.failed('its response to version has no version');
      return version;
    },
  };
}

/** Whether as many peers hold a pin as it asks for. @param min -1: all of them */
export function isReplicated(peers: readonly PeerStatus[], min: number): boolean {
  const holders = peers.filter(({ status }) => status === 'pinned').length;
  return holders > 0 && holders >= (min > 0 ? min : peers.length);
}
