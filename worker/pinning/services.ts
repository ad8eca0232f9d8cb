/** The services that hold the bytes, as the configuration names them. */
import { SealpinError } from '../../shared/errors.ts';
import type { PinningService } from './contract.ts';
import { kubo } from './kubo.ts';

/** Each type of service that the configuration can name. */
const adapters = { kubo };

const fields = ['id', 'type', 'url', 'tokenSecret', 'headers'];

/**
 * Parses `PINNING_SERVICES`: `[{"id", "type": "kubo", "url", "tokenSecret"?, "headers"?}]`, at least one.
 * @param secret the value of a secret by its name: a bearer token, or a whole value of `Authorization` that begins with its scheme
 * @param pinName the name of this service's pins
 * @throws misconfigured, naming the entry and the field
 */
export function pinningServices(
  json: string,
  secret: (name: string) => string | undefined,
  pinName: string,
  fetcher: typeof fetch = fetch,
): PinningService[] {
  const entries = parseList(json);
  const known = new Set<string>();
  return entries.map((entry, i) => {
    const wrong = (what: string) =>
      new SealpinError(
        'misconfigured',
        `PINNING_SERVICES[${i}]${typeof entry['id'] === 'string' ? ` (${entry['id']})` : ''}: ${what}`,
      );
    const surplus = Object.keys(entry).find((name) => !fields.includes(name));
    if (surplus !== undefined) throw wrong(`the field ${JSON.stringify(surplus)} is not known`);
    const { id, type, url, tokenSecret, headers = {} } = entry;
    if (typeof id !== 'string' || !/^[a-z0-9][a-z0-9-]{0,31}$/.test(id))
      throw wrong('id must be 1 to 32 of a-z, 0-9 and -');
    if (known.has(id)) throw wrong('id stands there twice');
    known.add(id);
    if (typeof type !== 'string' || !Object.hasOwn(adapters, type))
      throw wrong(`type must be one of ${Object.keys(adapters).join(', ')}`);
    if (!isHeaders(headers)) throw wrong('headers must be an object of strings that HTTP takes');
    const root = typeof url === 'string' ? URL.parse(url) : null;
    if (!root || !/^https?:$/.test(root.protocol) || root.search !== '' || root.hash !== '')
      throw wrong('url must be an http: or https: address without query');
    if (root.username !== '' || root.password !== '')
      throw wrong('url must not carry a password: name a secret in tokenSecret');
    const all: Record<string, string> = { ...headers };
    if (tokenSecret !== undefined) {
      if (typeof tokenSecret !== 'string' || tokenSecret === '')
        throw wrong('tokenSecret must be the name of a secret');
      const token = secret(tokenSecret);
      if (!token) throw wrong(`the secret ${tokenSecret} is not set`);
      all['authorization'] = /^(basic|bearer) /i.test(token) ? token : `Bearer ${token}`;
      if (!isHeaders(all)) throw wrong(`the secret ${tokenSecret} has characters that HTTP does not take`);
    }
    return adapters[type as keyof typeof adapters]({ id, url: root.href, headers: all, pinName, fetch: fetcher });
  });
}

function parseList(json: string): Record<string, unknown>[] {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (cause) {
    throw new SealpinError('misconfigured', 'PINNING_SERVICES is not JSON', { cause });
  }
  const isObject = (entry: unknown) => typeof entry === 'object' && entry !== null && !Array.isArray(entry);
  if (!Array.isArray(value) || value.length === 0 || !value.every(isObject)) {
    throw new SealpinError('misconfigured', 'PINNING_SERVICES must be a list of at least one object');
  }
  return value as Record<string, unknown>[];
}

function isHeaders(value: unknown): value is Record<string, string> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(
    ([name, text]) => /^[\w!#$%&'*+.^`|~-]+$/.test(name) && typeof text === 'string' && /^[\t\x20-\x7e]*$/.test(text),
  );
}
