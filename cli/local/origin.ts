/** Which requests a listener on loopback takes; pure, because it runs in workerd and in Node. */

/**
 * Why a request is refused, or undefined.
 *
 * @param headers of the request
 * @param port that the listener has, in decimal
 */
export function refusal(headers: Headers, port: string): string | undefined {
  const own = ['127.0.0.1', 'localhost', '[::1]'].map((name) => `${name}:${port}`);
  if (!own.includes(headers.get('host') ?? '')) return 'the Host header is not that of this service';
  const origin = headers.get('origin');
  if (origin !== null && !own.some((host) => origin === `http://${host}`))
    return 'pages of other origins may not use this service';
  if (headers.get('sec-fetch-site') === 'cross-site') return 'pages of other sites may not use this service';
  for (const name of headers.keys()) {
    if (name.startsWith('mf-')) return `the header ${name} is not accepted`;
  }
  return undefined;
}
