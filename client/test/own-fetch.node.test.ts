/** A program's own `fetch`, in front of a service that no other one reaches. */
import { beforeAll, expect, test } from 'vitest';
import { sharedService, type Service } from '../../testkit/service.ts';
import { first } from '../../testkit/present.ts';
import * as sdk from '../index.ts';

let service: Service;
beforeAll(async () => {
  service = await sharedService();
});

/** An address that nothing answers at. */
const nowhere = 'http://127.0.0.1:9';
const through: sdk.Fetch = (url, init) => fetch(`${service.url}${url.pathname}${url.search}`, init);

const { recipient, privateKey } = await sdk.generateKeys();
const file = { source: 'hello', name: 'hello.txt' };
const label = 'Ann';
type Received = Pick<sdk.Received, 'files'>;
const readFirst = async ({ files }: Received): Promise<string> => (await first(files).open()).text();
const guestOf = async ({ invitation }: sdk.Connection): Promise<sdk.Guest> =>
  sdk.connectAsGuest((await invitation.create({ label })).link, { fetch: through });
/** The blob ID of a container of `hello`. */
async function container({ put }: sdk.Connection): Promise<string> {
  const { stream } = await sdk.seal('hello', { to: { keys: recipient } });
  return (await put(stream, { mode: 'plain' })).cid;
}

/** A use of each function that sends requests, by its name. */
const uses: Record<string, (connection: sdk.Connection) => Promise<unknown>> = {
  fetchBlob: async (connection) =>
    (await sdk.fetchBlob(await container(connection), { from: nowhere, fetch: through })).bytes(),
  handOver: async ({ inbox }) =>
    sdk.handOver((await inbox.create({ label, recipient })).link, file, { fetch: through }),
  receive: async (connection) => {
    const blobLink = `${nowhere}/b#${await container(connection)}`;
    await readFirst(await sdk.receive(blobLink, { keys: privateKey, fetch: through }));
    return readFirst(await sdk.receive((await connection.send(file)).link, { fetch: through }));
  },
  'connect.put': ({ put }) => put('hello', { name: 'hello.txt' }),
  'connect.get': async ({ put, get }) => (await get((await put('hello', { mode: 'plain' })).fileId)).text(),
  'connect.list': ({ list }) => list(),
  'connect.delete': async ({ put, ...connection }) => connection.delete((await put('hello', { mode: 'plain' })).fileId),
  'connect.events': ({ events }) => Array.fromAsync(events()),
  'connect.upload': ({ upload }) => upload('hello'),
  'connect.send': ({ send }) => send(file),
  'connect.share': async (connection) =>
    connection.share([
      { fileId: (await connection.put('hello', { name: 'hello.txt' })).fileId },
      { cid: await container(connection), with: { keys: privateKey }, name: 'hello.txt' },
    ]),
  'connect.shares': ({ shares }) => shares(),
  'connect.changeShare': async ({ send, changeShare }) => changeShare((await send(file)).share.id, { opens: 2 }),
  'connect.unshare': async ({ send, unshare }) => unshare((await send(file)).share.id),
  'connect.rotateAccount': ({ rotateAccount }) => rotateAccount(),
  'connect.inbox.create': ({ inbox }) => inbox.create({ label, recipient }),
  'connect.inbox.list': ({ inbox }) => inbox.list(),
  'connect.inbox.open': async ({ inbox }) => {
    await sdk.handOver((await inbox.create({ label, recipient })).link, file, { fetch: through });
    return readFirst(await inbox.open(first((await inbox.list()).deliveries).id, { keys: privateKey }));
  },
  'connect.inbox.close': async ({ inbox }) => inbox.close((await inbox.create({ label, recipient })).key.id),
  'connect.invitation.create': ({ invitation }) => invitation.create({ label }),
  'connect.invitation.list': ({ invitation }) => invitation.list(),
  'connect.invitation.revoke': async ({ invitation }) => invitation.revoke((await invitation.create({ label })).key.id),
  'connectAsGuest.send': async (connection) => (await guestOf(connection)).send(file),
  'connectAsGuest.shares': async (connection) => (await guestOf(connection)).shares(),
  'connectAsGuest.changeShare': async (connection) => {
    const { send, changeShare } = await guestOf(connection);
    return changeShare((await send(file)).share.id, { opens: 2 });
  },
  'connectAsGuest.unshare': async (connection) => {
    const { send, unshare } = await guestOf(connection);
    return unshare((await send(file)).share.id);
  },
};

/** What sends nothing. */
const offline = ['SealpinError', 'cidOf', 'generateKeys', 'inspect', 'isSealpinError', 'open', 'seal', 'signUrl'];

function namesIn(object: object, prefix = ''): string[] {
  return Object.entries(object).flatMap(([name, value]) =>
    typeof value === 'function' ? [prefix + name] : namesIn(value, `${prefix}${name}.`),
  );
}

async function connection(): Promise<sdk.Connection> {
  const { apiKey } = await service.account();
  return sdk.connect({ service: nowhere, apiKey, fetch: through });
}

test('is tried with every function that sends requests', async () => {
  const { connect, connectAsGuest, ...functions } = sdk;
  const guest = connectAsGuest((await (await connection()).invitation.create({ label })).link);
  const names = namesIn({ ...functions, connect: connect({ service: nowhere }), connectAsGuest: guest });
  expect(Object.keys(uses).sort()).toEqual(names.filter((name) => !offline.includes(name)).sort());
});

test.each(Object.keys(uses))('sends every request of %s', async (name) => {
  await expect(uses[name]?.(await connection())).resolves.toBeDefined();
});
