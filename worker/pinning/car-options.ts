/** The options of a service that takes a CAR by a part of Kubo's RPC, in `PINNING_SERVICES`. */
import { car } from './hosted-rpc.ts';
import type { Adapter } from './contract.ts';
import { rpcOptions } from './kubo-options.ts';
import { authorized } from './option-fields.ts';

/** How such a service is configured: as a Kubo. */
export const carAdapter: Adapter<typeof rpcOptions> = {
  options: rpcOptions,
  triedAgainst: 'Kubo 0.42 limited to what Filebase documents; not Filebase itself',
  make({ url, tokenSecret, headers }, context) {
    const { id, pinName, fetch } = context;
    return car({ id, url, headers: authorized(headers, tokenSecret, context), pinName, fetch });
  },
};
