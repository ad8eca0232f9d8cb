/** Links, against the service. */
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { encryptPayload, fileKeyOf, parseIdentities } from '../../shared/crypto/index.ts';
import { printLink, sealParcel, type Parcel } from '../../shared/link/index.ts';
import { client } from '../../testkit/api-client.ts';
import { equal } from '../../testkit/assertions.ts';
import { sharedService, type Service } from '../../testkit/service.ts';
import { connect, generateKeys, receive, seal, type Connection } from '../index.ts';
import { pattern } from './bytes.ts';
import { faultyProxy } from '../../testkit/faulty-proxy.ts';
import { startLoopbackServer } from '../../testkit/loopback-server.ts';
import { first, itemOf } from '../../testkit/present.ts';

const plaintext = pattern(1_200_000);
const shareId = '7n42DGM5Tflk9n8mt7Fhc7';

let service: Service;
let connection: Connection;
let root: string;
let apiKey: string;
const keys = await generateKeys();
/** The same plaintext in both formats, and as a payload without a header. */
let stored: { cid: string; fileKey: Uint8Array }[];
beforeAll(async () => {
  service = await sharedService();
  root = `${service.url}/`;
  ({ apiKey } = await service.account());
  connection = connect({ service: service.url, apiKey });
  const store = async (bytes: Blob) => (await connection.put(bytes, { mode: 'plain' })).cid;
  const containers = (['age', 'sealpin'] as const).map(async (format) => {
    const blob = await (await seal(plaintext, { to: { keys: keys.publicKey }, format })).blob();
    const fileKey = await fileKeyOf(blob.stream(), { identities: parseIdentities(keys.privateKey) });
    return { cid: await store(blob), fileKey };
  });
  const bare = encryptPayload(new Blob([plaintext]).stream()).then(async ({ payload, fileKey }) => ({
    cid: await store(await new Response(payload).blob()),
    fileKey,
  }));
  stored = await Promise.all([...containers, bare]);
});

test('a blob link opens the file, whole and in part', async () => {
  for (const { cid, fileKey } of stored) {
    const { files } = await receive(printLink({ kind: 'blob', service: root, cid, fileKey }));
    expect(files).toHaveLength(1);
    expect(files[0]?.cid).toBe(cid);
    const whole = await first(files).open();
    expect(whole.size).toBe(plaintext.length);
    equal(await whole.bytes(), plaintext);
    for (const range of [
      { start: 0, end: 5 },
      { start: 1_048_500, end: 1_048_600 },
      { start: plaintext.length - 10 },
      { start: 7, end: 7 },
    ])
      equal(await (await first(files).open(range)).bytes(), plaintext.slice(range.start, range.end));
    await expect(first(files).open({ end: plaintext.length + 1 })).rejects.toMatchObject({
      code: 'range_not_satisfiable',
    });
  }
});

test('a blob link without a file key needs a key, and a wrong one opens nothing', async () => {
  const { cid } = first(stored);
  const link = printLink({ kind: 'blob', service: root, cid });
  const { files } = await receive(link, { keys: keys.privateKey });
  equal(await (await first(files).open({ end: 3 })).bytes(), plaintext.slice(0, 3));
  await expect(receive(link)).rejects.toMatchObject({ code: 'wrong_kind' });
  const other = await receive(link, { keys: (await generateKeys()).privateKey });
  await expect(first(other.files).open()).rejects.toMatchObject({ code: 'decrypt_failed' });
  const password = await receive(link, { password: 'x' });
  await expect(first(password.files).open()).rejects.toMatchObject({ code: 'wrong_kind' });
  for (const { cid: each, fileKey } of stored) {
    const wrong = printLink({ kind: 'blob', service: root, cid: each, fileKey: new Uint8Array(fileKey.length) });
    await expect(first((await receive(wrong)).files).open()).rejects.toMatchObject({ code: 'decrypt_failed' });
  }
});

test('files come from other places where they are named', async () => {
  const { cid, fileKey } = itemOf(stored, 2);
  const link = printLink({ kind: 'blob', service: 'http://127.0.0.1:9/', cid, fileKey });
  await expect(first((await receive(link)).files).open()).rejects.toMatchObject({ code: 'service_unreachable' });
  const { files } = await receive(link, { from: ['http://127.0.0.1:9/', service.url] });
  equal(await (await first(files).open()).bytes(), plaintext);
});

test('links that are incomplete, of another program or for sending are refused', async () => {
  const { cid, fileKey } = first(stored);
  const whole = printLink({ kind: 'blob', service: root, cid, fileKey });
  for (const link of [whole.slice(0, -1), 'https://sealpin.example/', ''])
    await expect(receive(link)).rejects.toMatchObject({ code: 'link_invalid' });
  const inbox =
    'https://example.org/files/drop#sp_5e2FYbehn9oyq1wgoS04PFM4pHKmktZpSHBGMPtp4dP9fGqz1WedJ9yF9b7fPYQio2R9vns' +
    '.age1tag1q0r9t82pdha4dtm3fu2xmytuyj4lsx9jlvfpvpqjjeycfq3s5tf9sphmvua';
  await expect(receive(inbox)).rejects.toMatchObject({
    code: 'link_invalid',
    message: expect.stringContaining('for handing files over'),
  });
});

/**
 * A service that hands out one record, so often.
 * @param password whether it says that the record needs one
 */
async function recordKeeper(
  record: Uint8Array,
  opens: number,
  password = false,
): Promise<{ url: string; seen: string[] }> {
  const seen: string[] = [];
  let opensLeft = opens;
  const server = await startLoopbackServer((request, response) => {
    seen.push(`${request.method} ${request.url}`);
    if (request.method === 'GET') {
      const state = opensLeft > 0 ? 'active' : 'used_up';
      const expiresAt = '2030-01-31T00:00:00.000Z';
      response.end(JSON.stringify({ id: shareId, state, password, expiresAt, opensLeft: Math.max(0, opensLeft) }));
      return;
    }
    opensLeft -= 1;
    const problem = { type: 'about:blank', title: 'This was deleted', status: 410, code: 'gone' };
    const answer = { record: Buffer.from(record).toString('base64'), opensLeft };
    response.writeHead(opensLeft < 0 ? 410 : 200).end(JSON.stringify(opensLeft < 0 ? problem : answer));
  });
  onTestFinished(() => server.close());
  return { url: `${server.url}/`, seen };
}

const parcelOf = (size: number): Parcel => ({
  files: stored.map((file, index) => ({ ...file, name: `${index}.bin`, type: 'a/b', size })),
  note: 'As promised.',
  from: 'Ann',
});

test('a share link opens every file of the parcel, and asks for the record once', async () => {
  const { record, secret } = await sealParcel(parcelOf(plaintext.length));
  const { url, seen } = await recordKeeper(record, 1);
  const link = printLink({ kind: 'share', service: url, id: shareId, secret });
  const received = await receive(link, { from: service.url });
  expect(received).toMatchObject({ note: 'As promised.', from: 'Ann' });
  expect(received.files).toMatchObject(
    stored.map((_, index) => ({ name: `${index}.bin`, type: 'a/b', size: plaintext.length })),
  );
  for (const file of received.files) equal(await (await file.open()).bytes(), plaintext);
  expect(JSON.stringify(received)).not.toContain('fileKey');
  const asked = `GET /v1/shares/${shareId}`;
  expect(seen).toEqual([asked, `POST /v1/shares/${shareId}/open`]);
  await expect(receive(link)).rejects.toMatchObject({ code: 'gone' });
  expect(seen.slice(2)).toEqual([asked]);
});

/** A share that opens once, of no files. @returns its ID */
async function shareOnce(record: Uint8Array): Promise<string> {
  const asked = { record: Buffer.from(record).toString('base64'), files: [], password: false, opens: 1 };
  return (await client(service.url, apiKey).createShare(asked)).id;
}

test('a share of the service is opened as often as it allows', async () => {
  const { record, secret } = await sealParcel(parcelOf(plaintext.length));
  const id = await shareOnce(record);
  const link = printLink({ kind: 'share', service: root, id, secret });
  const { files } = await receive(link);
  equal(await (await first(files).open({ end: 9 })).bytes(), plaintext.slice(0, 9));
  await expect(receive(link)).rejects.toMatchObject({ code: 'gone' });
});

test('a share link with a password needs it, and asking for it again uses nothing up', async () => {
  const kdf = { name: 'scrypt', logN: 10 } as const;
  const { record, secret } = await sealParcel(parcelOf(plaintext.length), { password: 'pw', kdf });
  const { url, seen } = await recordKeeper(record, 3, true);
  const link = printLink({ kind: 'share', service: url, id: shareId, secret });
  const asked: number[] = [];
  const answer = (texts: string[]) => async (failed: number) => {
    asked.push(failed);
    return texts[failed];
  };
  for (const none of [{}, { password: answer([]) }])
    await expect(receive(link, none)).rejects.toMatchObject({ code: 'wrong_kind', reason: 'needs_password' });
  expect(seen.filter((each) => each.startsWith('POST'))).toEqual([]);
  await expect(receive(link, { password: 'no' })).rejects.toMatchObject({ code: 'decrypt_failed' });
  expect((await receive(link, { password: 'pw' })).files).toHaveLength(3);
  asked.length = 0;
  expect((await receive(link, { password: answer(['no', 'neither', 'pw']) })).files).toHaveLength(3);
  expect(asked).toEqual([0, 1, 2]);
  expect(seen.filter((each) => each.startsWith('POST'))).toHaveLength(3);
});

test('a share without a password is not opened with one, and its opens stay', async () => {
  const { record, secret } = await sealParcel(parcelOf(plaintext.length));
  const { url, seen } = await recordKeeper(record, 1);
  const link = printLink({ kind: 'share', service: url, id: shareId, secret });
  await expect(receive(link, { password: 'pw' })).rejects.toMatchObject({
    code: 'wrong_kind',
    message: 'the share has no password, and one was given: it was not opened',
  });
  expect(seen.filter((each) => each.startsWith('POST'))).toEqual([]);
  const never = () => Promise.reject(new Error('a password was asked for'));
  expect((await receive(link, { password: never })).files).toHaveLength(3);
});

test('a file whose size does not match the parcel is refused', async () => {
  const { record, secret } = await sealParcel(parcelOf(plaintext.length - 1));
  const { url } = await recordKeeper(record, 1);
  const { files } = await receive(printLink({ kind: 'share', service: url, id: shareId, secret }), {
    from: service.url,
  });
  for (const file of files) await expect(file.open()).rejects.toMatchObject({ code: 'parcel_invalid' });
});

test('a share is not opened with what cannot open anything', async () => {
  const { record, secret } = await sealParcel(parcelOf(plaintext.length));
  for (const needsPassword of [false, true]) {
    const { url, seen } = await recordKeeper(record, 1, needsPassword);
    const link = printLink({ kind: 'share', service: url, id: shareId, secret });
    for (const wrong of [{ keys: 'no key' }, ...(needsPassword ? [{ password: '\ud800' }, { password: '' }] : [])])
      await expect(receive(link, wrong)).rejects.toMatchObject({
        code: expect.stringMatching(/^(?:key|password)_invalid$/),
      });
    expect(seen.filter((each) => each.startsWith('POST'))).toEqual([]);
  }
});

test('an opening whose answer is lost is repeated, and counts once', async () => {
  const cid = first(stored).cid;
  const file = { cid, fileKey: first(stored).fileKey, name: 'once', type: 'text/plain', size: plaintext.length };
  for (const fault of [{ kind: 'swallow' }, { kind: 'cut', afterBytes: 1 }] as const) {
    const { secret, record } = await sealParcel({ files: [file] });
    const id = await shareOnce(record);
    const isOpening = ({ path }: { path: string }): boolean => path.endsWith('/open');
    const proxy = await faultyProxy(
      () => service.url,
      (request, before) => (isOpening(request) && !before.some(isOpening) ? fault : undefined),
    );
    const link = printLink({ kind: 'share', service: `${proxy.url}/`, id, secret });
    const { files } = await receive(link);
    expect(files[0]?.name).toBe('once');
    const openings = proxy.passed.filter(isOpening);
    expect(openings.length).toBe(2);
    expect(new Set(openings.map(({ headers }) => headers['idempotency-key'])).size).toBe(1);
    // Another program has another key, and is refused.
    await expect(receive(link)).rejects.toMatchObject({ code: 'gone' });
  }
});
