/**
 * The service worker of `/dl/`: it turns what an engine sends over a port into a download of the
 * browser, or into the ranges of a film that a page shows. It has no other job and keeps nothing,
 * so several pages and versions of pages do not meet here.
 */
import { attachment } from '../../client/attachment.ts';
import { silenceMs, type FromServiceWorker, type RangeWanted, type ToPort, type ToServiceWorker } from '../protocol.ts';

declare const self: ServiceWorkerGlobalScope;

type Offer = Extract<ToServiceWorker, { kind: 'offer' }>;
/** An offer, and how to fail it once the browser has taken it. */
type Transfer = { readonly offer: Offer; isTaken: boolean; fail?: () => void };

const transfers = new Map<string, Transfer>();

type Media = Extract<ToServiceWorker, { kind: 'media' }>;
/** Films and sounds that pages show. */
const shownMedia = new Map<string, Media>();

self.addEventListener('install', () => void self.skipWaiting());

self.addEventListener('message', (event: ExtendableMessageEvent) => {
  const message = event.data as ToServiceWorker;
  if (message.kind === 'gone') {
    transfers.get(message.id)?.fail?.();
    transfers.delete(message.id);
    shownMedia.delete(message.id);
    return;
  }
  if (message.kind === 'offer') transfers.set(message.id, { offer: message, isTaken: false });
  if (message.kind === 'media') {
    shownMedia.set(message.id, message);
    // What a page shows is asked for by the page itself, which has been loaded without this worker.
    event.waitUntil(self.clients.claim());
  }
  message.answer.postMessage(transfers.has(message.id) || shownMedia.has(message.id));
});

self.addEventListener('fetch', (event) => {
  const id = /\/dl\/([^/]+)$/.exec(new URL(event.request.url).pathname)?.[1];
  // The page that shows a film asks for other things, too.
  if (id === undefined) return;
  const media = shownMedia.get(id);
  if (media !== undefined) return event.respondWith(part(media, event.request.headers.get('Range')));
  const transfer = transfers.get(id);
  // Without content the page that asked stays as it is.
  if (transfer === undefined || transfer.isTaken) event.respondWith(new Response(null, { status: 204 }));
  else event.respondWith(take(transfer));
});

function take(transfer: Transfer): Response {
  const { name, size, port } = transfer.offer;
  transfer.isTaken = true;
  const body = pulledFrom(port, size, (fail) => (transfer.fail = fail));
  const headers = { 'Content-Disposition': attachment(name), ...headersOf('application/octet-stream', size) };
  return new Response(body, { headers });
}

function headersOf(type: string, bytes: number): Record<string, string> {
  return {
    'Content-Type': type,
    'Content-Length': String(bytes),
    'Content-Security-Policy': "sandbox; default-src 'none'",
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': 'no-store',
  };
}

/** The range of a film that the browser asks for, or all of it. */
function part({ port, size, type }: Media, wanted: string | null): Response {
  const [, first = '', last = ''] = /^bytes=(\d+)-(\d*)$/.exec(wanted ?? '') ?? [];
  const start = Math.min(Number(first), size);
  const end = last === '' ? size : Math.min(Number(last) + 1, size);
  const { port1, port2 } = new MessageChannel();
  port.postMessage({ start, end } satisfies RangeWanted, [port2]);
  const body = pulledFrom(port1, end - start, () => undefined);
  const headers = { 'Accept-Ranges': 'bytes', ...headersOf(type, end - start) };
  if (first === '') return new Response(body, { headers });
  const range = { 'Content-Range': `bytes ${start}-${end - 1}/${size}` };
  return new Response(body, { status: 206, headers: { ...headers, ...range } });
}

/**
 * The bytes that the other end of a port gives when it is asked. A browser takes the end of a
 * stream for the end of the file, whatever length was announced: so the stream ends after exactly
 * `size` bytes and `end`, and errors in every other case, silence included.
 */
function pulledFrom(port: MessagePort, size: number, onStart: (fail: () => void) => void): ReadableStream<Uint8Array> {
  let received = 0;
  let isOver = false;
  let stream: ReadableStreamDefaultController<Uint8Array> | undefined;
  let watchdog: ReturnType<typeof setTimeout> | undefined;
  let answered: (() => void) | undefined;
  const send = (message: FromServiceWorker): void => port.postMessage(message);
  const end = (message: FromServiceWorker): void => {
    if (isOver) return;
    isOver = true;
    clearTimeout(watchdog);
    send(message);
    answered?.();
  };
  const fail = (): void => {
    if (isOver) return;
    stream?.error(new Error('the page stopped before the file was whole'));
    end('broken');
  };
  const watch = (): void => {
    clearTimeout(watchdog);
    watchdog = setTimeout(fail, silenceMs);
  };
  port.addEventListener('message', ({ data }: MessageEvent<ToPort>) => {
    if (isOver) return;
    if (data === 'wait') watch();
    else if (data === 'end' && received === size) {
      stream?.close();
      end('done');
    } else if (typeof data === 'string' || received + data.length > size) fail();
    else {
      clearTimeout(watchdog);
      received += data.length;
      stream?.enqueue(data);
      answered?.();
    }
  });
  onStart(fail);
  return new ReadableStream<Uint8Array>({
    start(controller) {
      stream = controller;
      port.start();
    },
    pull() {
      watch();
      send('pull');
      return new Promise((resolve) => {
        answered = resolve;
      });
    },
    cancel: () => end('cancelled'),
  });
}
