/** A `fetch` that tells how much of a body is on its way, which only `XMLHttpRequest` knows. */

/**
 * Sends bytes and Blobs by `XMLHttpRequest`, and everything else by `fetch`. A redirect, which
 * `XMLHttpRequest` follows, becomes a network error; the page's policy keeps it within the service.
 * @param onSent gets the bytes of the current body that were sent; 0 when one begins
 */
export function uploadFetch(onSent: (bytes: number) => void): (url: URL, init: RequestInit) => Promise<Response> {
  return (url, init) => {
    const { body } = init;
    const isFetched = typeof body !== 'object' || body === null || body instanceof ReadableStream;
    return isFetched ? fetch(url, init) : sendBytes(url, init, body, onSent);
  };
}

/** Statuses whose responses have no body (Fetch standard, "null body status"). */
const bodiless = new Set([204, 205, 304]);

function sendBytes(
  url: URL,
  init: RequestInit,
  body: XMLHttpRequestBodyInit,
  onSent: (bytes: number) => void,
): Promise<Response> {
  const { promise, resolve, reject } = Promise.withResolvers<Response>();
  const { signal } = init;
  const xhr = new XMLHttpRequest();
  xhr.open(init.method ?? 'POST', url);
  xhr.responseType = 'arraybuffer';
  new Headers(init.headers).forEach((value, name) => xhr.setRequestHeader(name, value));
  onSent(0);
  xhr.upload.addEventListener('progress', ({ loaded }) => onSent(loaded));
  xhr.addEventListener('load', () => {
    if (xhr.responseURL !== url.href) return resolve(Response.error());
    const lines = xhr.getAllResponseHeaders().matchAll(/^([^:\s]+):(.*)$/gm);
    const headers = Array.from(lines, ([, name = '', value = '']): [string, string] => [name, value.trim()]);
    const bytes = bodiless.has(xhr.status) ? null : (xhr.response as ArrayBuffer);
    resolve(new Response(bytes, { status: xhr.status, headers }));
  });
  xhr.addEventListener('error', () => reject(new TypeError('the request failed')));
  xhr.addEventListener('abort', () => reject(new DOMException('the request was cancelled', 'AbortError')));
  const stop = (): void => xhr.abort();
  signal?.addEventListener('abort', stop, { once: true });
  xhr.send(body);
  return promise.finally(() => signal?.removeEventListener('abort', stop));
}
