/** Which requests a listener on loopback accepts. Pure, because it runs in workerd and in Node. */
import { loopbackNames } from '../../client/loopback.ts';

/**
 * Why a request is refused; undefined when it is not.
 *
 * @param headers of the request
 * @param port of the listener, in decimal
 * @param origins other origins whose pages may call, as `Origin` spells them
 */
export function refusal(headers: Headers, port: string, origins: readonly string[] = []): string | undefined {
  const own = loopbackNames.map((name) => `${name}:${port}`);
  if (!own.includes(headers.get('host') ?? '')) return 'the Host header is not that of this service';
  for (const name of headers.keys()) {
    if (name.startsWith('mf-')) return `the header ${name} is not accepted`;
  }
  const origin = headers.get('origin');
  if (origin !== null && origins.includes(origin)) return undefined;
  if (origin !== null && !own.some((host) => origin === `http://${host}`))
    return 'pages of other origins may not use this service';
  if (headers.get('sec-fetch-site') === 'cross-site') return 'pages of other sites may not use this service';
  return undefined;
}
