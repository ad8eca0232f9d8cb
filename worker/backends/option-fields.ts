/** Fields that the options of several adapters have. */
import * as v from 'valibot';
import type { AdapterContext } from './contract.ts';

/**
 * The root of an API, normalized by the URL standard, without slashes at its end: one place has one
 * spelling.
 * @param field names it in messages
 * @param secret is the field for its secret
 */
export function addressField(field: string, secret: string) {
  const message = `${field} must be an http: or https: address without query`;
  return v.pipe(
    v.optional(v.unknown(), null),
    v.transform((value) => (typeof value === 'string' ? URL.parse(value) : null)),
    v.instance(URL, message),
    v.check((url) => /^https?:$/.test(url.protocol) && url.search === '' && url.hash === '', message),
    v.check(
      (url) => url.username === '' && url.password === '',
      `${field} must not carry a password: name a secret in ${secret}`,
    ),
    v.transform((url) => url.href.replace(/\/+$/, '')),
  );
}

/** Header fields that every request has. */
export const headersField = v.optional(
  v.custom<Record<string, string>>(isHeaders, 'headers must be an object of strings that HTTP takes'),
  {},
);

/** The name of a secret that holds credentials. @param field names it in messages */
export function secretField(field: string) {
  return v.optional(v.custom<string>(isName, `${field} must be the name of a secret`));
}

/**
 * The fields of an API. `tokenSecret` names a secret: a bearer token, `user:password`, or a whole
 * value of `Authorization` that begins with its scheme.
 */
export const apiFields = {
  url: addressField('url', 'tokenSecret'),
  tokenSecret: secretField('tokenSecret'),
  headers: headersField,
};

/** The message of the one issue that an object itself has: each field has its own. */
export function unknownField({ received }: { received: string }): string {
  return `the field ${received} is not known`;
}

/**
 * The headers of every request, with the credentials of a secret (`apiFields`).
 * @throws misconfigured when the secret is not set, or HTTP does not take it
 */
export function authorized(
  headers: Readonly<Record<string, string>>,
  secretName: string | undefined,
  { secretOf, misconfigured }: Pick<AdapterContext, 'secretOf' | 'misconfigured'>,
): Record<string, string> {
  if (secretName === undefined) return { ...headers };
  const secret = secretOf(secretName);
  if (!secret) throw misconfigured(`the secret ${secretName} is not set`);
  const all = { ...headers, authorization: authorizationOf(secret) };
  if (!isHeaders(all)) throw misconfigured(`the secret ${secretName} has characters that HTTP does not take`);
  return all;
}

/**
 * A bearer token has no colon (RFC 6750 section 2.1); the password of a user is sent in UTF-8 (RFC
 * 7617).
 */
function authorizationOf(secret: string): string {
  if (/^(basic|bearer) /i.test(secret)) return secret;
  if (!secret.includes(':')) return `Bearer ${secret}`;
  return `Basic ${btoa(String.fromCharCode(...new TextEncoder().encode(secret)))}`;
}

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

/** The beginning of the keys of an object store. */
export const prefixField = v.optional(
  v.pipe(
    v.string('prefix must be a string'),
    v.regex(
      /^([\w.-]+\/)*$/,
      'prefix must be empty, or names of letters, digits, ., _ and -, each with a slash behind it',
    ),
    v.maxLength(512, 'prefix must have at most 512 characters'),
  ),
);
