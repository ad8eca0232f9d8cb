/** Streams, behind which a file may be open, of calls that are refused before they are read. */
import { expect, test } from 'vitest';
import { printLink } from '../../shared/link/index.ts';
import * as sdk from '../index.ts';
import { thrownBy } from './bytes.ts';

type Stream = ReadableStream<Uint8Array> | Response;
type Options = { signal?: AbortSignal | undefined };

/** The names of the functions that take sources. */
type TakerIn<M> = {
  [K in keyof M & string]: M[K] extends (...args: infer A) => unknown
    ? Extract<A[number], Blob> extends never
      ? never
      : K
    : never;
}[keyof M & string];
type Taker = TakerIn<typeof sdk> | `connect.${TakerIn<sdk.Connection>}` | `connectAsGuest.${TakerIn<sdk.Guest>}`;

const apiKey = 'sp_5e2FYbehn9oyq1wgoS04PFM4pHKmktZpSHBGMPtp4dP9fGqz1WedJ9yF9b7fPYQio2R9vns';
const service = 'https://sealpin.example/';
const { recipient, privateKey } = await sdk.generateKeys();
const to = { keys: recipient };
const inbox = printLink({ kind: 'inbox', service, apiKey, recipient });
const invitation = printLink({ kind: 'invitation', service, apiKey });

const refusing: sdk.Fetch = async () => new Response('', { status: 403 });
const connected = sdk.connect({ service, apiKey, fetch: refusing });
const asGuest = sdk.connectAsGuest(invitation, { fetch: refusing });
const file = (source: Stream, name = 'a') => [
  { source: 'before it', name: 'b' },
  { source, name },
];
/** Items that are no files, beside one that is; a stream itself is one. */
const nothing = { source: undefined as unknown as string, name: 'nothing' };
const noFiles: Record<string, (source: Stream) => unknown> = {
  'another source that is none': () => nothing,
  'another one that is undefined': () => undefined,
  'another one that is null': () => null,
  'another one without a name': () => ({ source: 'x' }),
  'another one that is text': () => 'x',
  'the stream itself': (source) => source,
};
/** Ways to send what is no file. */
const wrongFiles = (send: (files: sdk.Outgoing[]) => unknown) =>
  Object.fromEntries(
    Object.entries(noFiles).map(([why, item]) => [
      why,
      (source: Stream) => send([...(why === 'the stream itself' ? [] : file(source)), item(source) as sdk.Outgoing]),
    ]),
  );
const long = 'x'.repeat(5000);

/** Of each function that takes sources, the ways to refuse them; `use` fails by its options. */
const takers: Record<
  Taker,
  { use(source: Stream, o: Options): unknown; wrong: Record<string, (source: Stream) => unknown> }
> = {
  seal: {
    use: (source, o) => sdk.seal(source, { to, ...o }),
    wrong: {
      'a bad key': (source) => sdk.seal(source, { to: { keys: 'no key' } }),
      'no key': (source) => sdk.seal(source, { to: { keys: [] } }),
      'an empty password': (source) => sdk.seal(source, { to: { password: '' } }),
      'no options': (source) => sdk.seal(source, undefined as never),
    },
  },
  open: {
    use: (source, o) => sdk.open(source, { with: { keys: privateKey }, ...o }),
    wrong: {
      'a bad key': (source) => sdk.open(source, { with: { keys: 'no key' } }),
      'an empty password': (source) => sdk.open(source, { with: { password: '' } }),
      'no options': (source) => sdk.open(source, undefined as never),
      'a bad key, with a signal': (source) =>
        sdk.open(source, { with: { keys: 'no key' }, signal: new AbortController().signal }),
    },
  },
  inspect: { use: (source, o) => sdk.inspect(source, o), wrong: {} },
  cidOf: { use: (source, o) => sdk.cidOf(source, o), wrong: {} },
  handOver: {
    use: (source, o) => sdk.handOver(inbox, file(source), { fetch: refusing, ...o }),
    wrong: {
      'no link': (source) => sdk.handOver('no link', file(source)),
      'the link of something else': (source) => sdk.handOver(invitation, file(source)),
      'a bad link': (source) => sdk.handOver(inbox.replace('sp_', 'no_'), file(source)),
      ...wrongFiles((files) => sdk.handOver(inbox, files, { fetch: refusing })),
    },
  },
  'connect.put': {
    use: (source, o) => connected.put(source, { name: 'a', ...o }),
    wrong: {
      'a bad name': (source) => connected.put(source, { name: 'a/b' }),
      'a type that is not stored': (source) => connected.put(source, { type: 'application/json' }),
      'a bad time': (source) => connected.put(source, { expiresAt: 'never' }),
      'a bad header': (source) => connected.put(source, { name: 'a', idempotencyKey: '\n' }),
    },
  },
  'connect.upload': {
    // It takes none that is read once.
    use: (source, o) => connected.upload(source as unknown as Blob, o),
    wrong: {},
  },
  'connect.send': {
    use: (source, o) => connected.send(file(source), o),
    wrong: {
      'a bad name': (source) => connected.send(file(source, 'a/b')),
      'a long note': (source) => connected.send(file(source), { note: long }),
      'an empty password': (source) => connected.send(file(source), { password: '' }),
      'a bad key': (source) => connected.send(file(source), { to: 'no key' }),
      'a password and a key': (source) => connected.send(file(source), { to: recipient, password: 'both' }),
      'a bad time': (source) => connected.send(file(source), { expiresAt: 'never' }),
      ...wrongFiles((files) => connected.send(files)),
    },
  },
  'connectAsGuest.send': {
    use: (source, o) => asGuest.send(file(source), o),
    wrong: {
      'a bad name': (source) => asGuest.send(file(source, 'a/b')),
      'a long note': (source) => asGuest.send(file(source), { note: long }),
      'a bad key': (source) => asGuest.send(file(source), { to: 'no key' }),
      'a bad time': (source) => asGuest.send(file(source), { expiresAt: 'never' }),
      ...wrongFiles((files) => asGuest.send(files)),
    },
  },
};

/** A stream, and whether it was cancelled or read to its end. */
function opened(): { stream: ReadableStream<Uint8Array>; isOver(): boolean } {
  let left = 2;
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>): void =>
    left-- > 0 ? controller.enqueue(new Uint8Array(10)) : controller.close();
  const stream = new ReadableStream<Uint8Array>({ pull, cancel: () => void (left = -1) }, { highWaterMark: 0 });
  return { stream, isOver: () => left < 0 };
}

const sends = (name: string): boolean => name.includes('.') || name === 'handOver';
const refusals = Object.entries(takers).flatMap(([name, { use, wrong }]) => [
  { name, why: 'an aborted signal', call: (source: Stream) => use(source, { signal: AbortSignal.abort() }) },
  ...Object.entries(wrong).map(([why, call]) => ({ name, why, call })),
  ...(sends(name) ? [{ name, why: 'a refusal of the service', call: (source: Stream) => use(source, {}) }] : []),
]);

test.each(refusals)('are cancelled by $name after $why', async ({ call }) => {
  for (const asBody of [false, true]) {
    const { stream, isOver } = opened();
    expect(await thrownBy(() => call(asBody ? new Response(stream) : stream))).toBeInstanceOf(Error);
    await expect.poll(isOver).toBe(true);
  }
});

test.each(Object.entries(noFiles))('what is no file is refused in words: %s', async (_, item) => {
  const given = item(new ReadableStream()) as sdk.Outgoing;
  await expect(connected.send([given])).rejects.toThrow(/^(?:a file to send|the source) must be /);
});
