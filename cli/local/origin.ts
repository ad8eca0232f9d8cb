/** Rules for requests to a listener on loopback. Pure, because it runs in workerd and in Node. */
import { loopbackNames } from '../../shared/loopback.ts';

/**
 * The address of requests of the service itself, which no limit counts. No client has it: the
 * listener of a public service passes on addresses of IP alone.
 */
export const ownAddress = 'own';

/** Part of `Headers` that is used; names are in lower case. */
type HeadersOf = { get(name: string): string | null; keys(): Iterable<string> };

/** Reason why a request is refused, and what to do about it. */
export type Refusal = { readonly detail: string; readonly hint: string };

const fromPage = (detail: string): Refusal => ({
  detail,
  hint: 'to develop a page against this service, start it with --cors-origin and the origin of the page',
});

/** Refuses a header that only this machine may send. */
export function notAccepted(name: string): Refusal {
  return { detail: `the header ${name} is not accepted`, hint: `leave ${name} out` };
}

/**
 * Returns why a request is refused; undefined when it is not.
 * @param headers of the request
 * @param port of the listener, in decimal
 * @param o.origins other origins whose pages may call, as `Origin` spells them; `*`: all
 * @param o.method of the request; with it, links on pages of other sites may lead to pages of this
 * service
 */
export function refusal(
  headers: HeadersOf,
  port: string,
  { origins = [], method }: { origins?: readonly string[]; method?: string } = {},
): Refusal | undefined {
  const own = loopbackNames.map((name) => `${name}:${port}`);
  if (!own.includes(headers.get('host') ?? ''))
    return { detail: 'the Host header is not that of this service', hint: `use the address http://127.0.0.1:${port}` };
  for (const name of headers.keys()) if (name.startsWith('mf-')) return notAccepted(name);
  const origin = headers.get('origin');
  if (origin !== null && [origin, '*'].some((each) => origins.includes(each))) return undefined;
  if (origin !== null && !own.some((host) => origin === `http://${host}`))
    return fromPage('pages of other origins may not use this service');
  if (headers.get('sec-fetch-site') === 'cross-site' && !isNavigation(headers, method))
    return fromPage('pages of other sites may not use this service');
  return undefined;
}

/**
 * Recognizes a request that loads a page into a tab, as a click on a link does (Fetch metadata,
 * W3C). It carries no API key, and the page that it comes from reads nothing of the response; a
 * frame is not a tab.
 */
function isNavigation(headers: HeadersOf, method: string | undefined): boolean {
  return (
    method === 'GET' && headers.get('sec-fetch-mode') === 'navigate' && headers.get('sec-fetch-dest') === 'document'
  );
}
