/** The options of a service with the IPFS Pinning Service API, in `BACKENDS`. */
import * as v from 'valibot';
import type { Adapter } from '../contract.ts';
import { rpcOptions } from '../kubo/kubo-options.ts';
import { authorized, unknownField } from '../option-fields.ts';
import { psa } from './psa.ts';

/** The most that the specification lets a pin have. */
const mostOrigins = 20;
const message =
  `origins must be a list of at most ${mostOrigins} multiaddresses, such as ` +
  '/dns4/kubo.example.com/tcp/4001/p2p/12D3…';

const PsaOrigin = v.pipe(v.string(message), v.regex(/^\/[\x21-\x7e]+\/p2p\/[a-zA-Z0-9]+$/, message));

const PsaFields = v.strictObject(
  {
    ...rpcOptions.entries,
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
  make({ url, tokenSecret, headers, origins }, context) {
    const { id, pinName, fetch } = context;
    return psa({ id, url, headers: authorized(headers, tokenSecret, context), origins, pinName, fetch });
  },
};
