/**
 * Headers of a request that came through the proxy of a public service: which of them the Worker
 * gets, and whose request it is. Pure, and over the headers as they were sent, since a list by name
 * merges those that are given twice.
 */
import { isIP } from 'node:net';
import { plainAddress } from './proxies.ts';

/** A request that is not passed on. */
export type Refused = { readonly status: 400 | 421; readonly detail: string; readonly hint: string };

/** A request that is passed on. `headers`: names and values in turn. */
export type Forwarded = {
  readonly headers: string[];
  readonly address: string;
  readonly hasBody: boolean;
  /** Set where the client waits until its body is asked for. */
  readonly expects: boolean;
};

/**
 * Headers by which a proxy or the platform speaks of the client, and this process to the Worker.
 */
const spoken =
  /^(?:cf-|mf-|x-forwarded(?:-|$)|forwarded$|x-real-ip$|true-client-ip$|sealpin-(?:control|front|handover|length)$)/;

/** Headers of one connection (RFC 9110 section 7.6.1); Node writes those of the next one. */
const ofConnection = new Set(
  'connection keep-alive proxy-connection proxy-authorization te trailer transfer-encoding upgrade expect'.split(' '),
);

/** A name in lower case, whichever way a proxy spells hyphens. */
function headerName(name: string): string {
  return name.toLowerCase().replaceAll('_', '-');
}

function* pairsOf(raw: readonly string[]): Generator<[name: string, value: string]> {
  for (let index = 0; index + 1 < raw.length; index += 2) yield [raw[index] ?? '', raw[index + 1] ?? ''];
}

/** The headers of a message that are not of its connection, without those of some names. */
export function endToEnd(raw: readonly string[], without: readonly string[] = []): string[] {
  const isKept = (name: string): boolean => !ofConnection.has(name) && !without.includes(name);
  return [...pairsOf(raw)].filter(([name]) => isKept(name.toLowerCase())).flat();
}

/**
 * Examines the headers of a request.
 * @param raw as they were sent, names and values in turn
 * @param o.hosts authorities of this service, in lower case
 * @param o.peer address of the proxy
 */
export function forwardedHeaders(
  raw: readonly string[],
  { hosts, peer, method }: { hosts: readonly string[]; peer: string; method: string },
): Forwarded | Refused {
  const pairs = [...pairsOf(raw)];
  const valuesOf = (wanted: string) =>
    pairs.filter(([name]) => name.toLowerCase() === wanted).map(([, value]) => value.trim());
  const [host, ...more] = valuesOf('host');
  if (host === undefined || more.length > 0 || !hosts.includes(host.toLowerCase()))
    return {
      status: 421,
      detail: 'the Host header is not that of this service',
      hint: `use the address https://${hosts[0]}; a proxy must pass the Host header on`,
    };
  const coding = valuesOf('transfer-encoding').join(',').toLowerCase();
  if (coding !== '' && coding !== 'chunked')
    return { status: 400, detail: 'Transfer-Encoding must be chunked', hint: 'leave other codings out' };
  const named = valuesOf('x-forwarded-for').join(',').split(',').at(-1)?.trim() ?? '';
  const isNamed = valuesOf('x-forwarded-for').length > 0;
  if (isNamed && (isIP(named) === 0 || named.includes('%')))
    return {
      status: 400,
      detail: 'the last entry of X-Forwarded-For is not an address',
      hint: 'the proxy must put the address of its client there, without a port',
    };
  const address = plainAddress(isNamed ? named : peer);
  const kept = pairs.filter(([name]) => !spoken.test(headerName(name)) && !ofConnection.has(headerName(name)));
  // Of these methods Node announces a body in chunks, also where there is none.
  const hasBody = coding !== '' || valuesOf('content-length').some((length) => Number(length) > 0);
  const isEmpty = ['POST', 'PUT', 'PATCH'].includes(method) && valuesOf('content-length').length === 0;
  const framing = coding === '' ? (isEmpty ? ['Content-Length', '0'] : []) : ['Transfer-Encoding', coding];
  return {
    headers: [...kept.flat(), ...framing, 'CF-Connecting-IP', address],
    address,
    hasBody,
    expects: hasBody && valuesOf('expect').some((value) => value.toLowerCase() === '100-continue'),
  };
}
