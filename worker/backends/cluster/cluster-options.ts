/** The options of an IPFS Cluster in `BACKENDS`. */
import * as v from 'valibot';
import { cluster } from './cluster.ts';
import type { Adapter } from '../contract.ts';
import { addressField, authorized, headersField, secretField, unknownField } from '../option-fields.ts';

const peersMessage = 'peers must be a list of at least one {"url", "ipfs"}';
const replicationMessage = 'replication must be {"min", "max"}, whole numbers from 1 with min not above max';

const Peer = v.strictObject(
  { url: addressField('url', 'tokenSecret'), ipfs: addressField('ipfs', 'ipfsTokenSecret') },
  peersMessage,
);

const factor = v.pipe(v.number(replicationMessage), v.integer(replicationMessage), v.minValue(1, replicationMessage));

const Replication = v.pipe(
  v.strictObject({ min: factor, max: factor }, replicationMessage),
  v.check(({ min, max }) => min <= max, replicationMessage),
);

/**
 * The secrets are as for a Kubo: `tokenSecret` for the REST APIs, `ipfsTokenSecret` for the Kubos.
 */
const ClusterFields = v.strictObject(
  {
    peers: v.pipe(v.optional(v.array(Peer, peersMessage), []), v.minLength(1, peersMessage)),
    tokenSecret: secretField('tokenSecret'),
    ipfsTokenSecret: secretField('ipfsTokenSecret'),
    headers: headersField,
    replication: v.optional(Replication),
  },
  unknownField,
);

/**
 * IPFS Cluster, configured by
 * `{"peers": [{"url", "ipfs"}], "tokenSecret"?, "ipfsTokenSecret"?, "headers"?, "replication"?}`.
 */
export const clusterAdapter: Adapter<typeof ClusterFields> = {
  options: ClusterFields,
  triedAgainst:
    'IPFS Cluster 1.1.6, one and three peers on one machine, also while peers are killed; not over a wide area',
  places: ({ peers }) => peers.flatMap(({ url, ipfs }) => [url, ipfs]),
  make({ peers, tokenSecret, ipfsTokenSecret, headers, replication }, context) {
    const { id, pinName, fetch } = context;
    return cluster({
      id,
      peers,
      headers: authorized(headers, tokenSecret, context),
      ipfsHeaders: authorized(headers, ipfsTokenSecret, context),
      replication,
      pinName,
      fetch,
    });
  },
};
