/** The options of a Kubo in `PINNING_SERVICES`. */
import * as v from 'valibot';
import type { Adapter } from './contract.ts';
import { kubo } from './kubo.ts';

const addressMessage = 'url must be an http: or https: address without query';

/** The root of the RPC API, normalized by the URL standard. */
const Address = v.pipe(
  v.optional(v.unknown(), null),
  v.transform((value) => (typeof value === 'string' ? URL.parse(value) : null)),
  v.instance(URL, addressMessage),
  v.check((url) => /^https?:$/.test(url.protocol) && url.search === '' && url.hash === '', addressMessage),
  v.check(
    (url) => url.username === '' && url.password === '',
    'url must not carry a password: name a secret in tokenSecret',
  ),
  v.transform((url) => url.href),
);

const Headers = v.custom<Record<string, string>>(isHeaders, 'headers must be an object of strings that HTTP takes');

/** `tokenSecret` names a secret: a bearer token, or a whole value of `Authorization` that begins with its scheme. */
const Options = v.strictObject(
  {
    url: Address,
    tokenSecret: v.optional(v.custom<string>(isName, 'tokenSecret must be the name of a secret')),
    headers: v.optional(Headers, {}),
  },
  // The one issue of the object itself: each field has an issue of its own.
  ({ received }) => `the field ${received} is not known`,
);

/** How a Kubo is configured: `{"url", "tokenSecret"?, "headers"?}`. */
export const kuboAdapter: Adapter<typeof Options> = {
  options: Options,
  make({ url, tokenSecret, headers }, { id, pinName, fetch, secretOf, misconfigured }) {
    const all = { ...headers };
    if (tokenSecret !== undefined) {
      const token = secretOf(tokenSecret);
      if (!token) throw misconfigured(`the secret ${tokenSecret} is not set`);
      all['authorization'] = /^(basic|bearer) /i.test(token) ? token : `Bearer ${token}`;
      if (!isHeaders(all)) throw misconfigured(`the secret ${tokenSecret} has characters that HTTP does not take`);
    }
    return kubo({ id, url, headers: all, pinName, fetch });
  },
};

function isName(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

/** Names are tokens, values visible ASCII with spaces and tabs (RFC 9110 section 5). */
function isHeaders(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(
    ([name, text]) => /^[\w!#$%&'*+.^`|~-]+$/.test(name) && typeof text === 'string' && /^[\t\x20-\x7e]*$/.test(text),
  );
}
