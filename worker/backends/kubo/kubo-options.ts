/** The options of a Kubo in `BACKENDS`. */
import * as v from 'valibot';
import type { Adapter } from '../contract.ts';
import { kubo } from './kubo.ts';
import { addressField, authorized, headersField, secretField, unknownField } from '../option-fields.ts';

/**
 * `tokenSecret` names a secret: a bearer token, `user:password`, or a whole value of
 * `Authorization` that begins with its scheme.
 */
export const rpcOptions = v.strictObject(
  { url: addressField('url', 'tokenSecret'), tokenSecret: secretField('tokenSecret'), headers: headersField },
  unknownField,
);

/** Kubo, configured by `{"url", "tokenSecret"?, "headers"?}`. */
export const kuboAdapter: Adapter<typeof rpcOptions> = {
  options: rpcOptions,
  triedAgainst: 'Kubo 0.43, and the built-in node',
  places: ({ url }) => [url],
  make({ url, tokenSecret, headers }, context) {
    const { id, pinName, fetch } = context;
    return kubo({ id, url, headers: authorized(headers, tokenSecret, context), pinName, fetch });
  },
};
