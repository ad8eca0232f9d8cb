import {
  encrypt,
  encryptPayload,
  fileKeyOf,
  parseIdentities,
  passwordRecipient,
} from '../../../shared/crypto/index.ts';
import { equal, fails, ok, type Tool } from '../../../testkit/assertions.ts';
import { cidOf, generateKeys, inspect, open, seal, type Source } from '../../index.ts';
import { pattern, thrownBy, watched } from '../bytes.ts';

const sizes = [0, 1, 16_383, 16_384, 16_385, 65_536, 1_048_577];
const gone = new Error('the test has seen enough');

/** Every kind of source, with the same bytes. */
function sourcesOf(bytes: Uint8Array<ArrayBuffer>): Record<string, Source> {
  return {
    array: bytes,
    part: new Uint8Array([0, ...bytes, 0]).subarray(1, -1),
    buffer: bytes.buffer,
    blob: new Blob([bytes]),
    file: new File([bytes], 'a.bin'),
    response: new Response(bytes),
    stream: watched([bytes.subarray(0, 3), bytes.subarray(3)]).stream,
  };
}

/** Sealing and opening. */
export function containers(tool: Tool): void {
  tool.test('what is sealed comes back, in both formats and at the sizes where chunks end', async () => {
    const keys = await generateKeys();
    for (const format of ['age', 'sealpin'] as const) {
      for (const size of sizes) {
        const sealed = await seal(pattern(size), { to: { keys: keys.publicKey }, format });
        const container = await sealed.bytes();
        equal(container.length, sealed.size);
        equal(await sealed.cid, await cidOf(container));
        const opened = await open(container, { with: { keys: keys.privateKey } });
        equal(opened.size, size);
        equal(await opened.bytes(), pattern(size));
        equal(await inspect(container), { kind: format, opens: 'keys' });
      }
    }
  });

  tool.test('every kind of source is read, and none is changed', async () => {
    const { recipient, privateKey } = await generateKeys();
    const bytes = pattern(70_000);
    for (const [kind, source] of Object.entries(sourcesOf(bytes))) {
      const sealed = await seal(source, { to: { keys: [recipient] } });
      const opened = await open(await sealed.blob(), { with: { keys: [privateKey] } });
      equal(new Uint8Array(await (await opened.blob('a/b')).arrayBuffer()), pattern(70_000), kind);
    }
    equal(bytes, pattern(70_000));
    for (const [kind, source] of Object.entries(sourcesOf(bytes)))
      equal(await cidOf(source), await cidOf(bytes), `the blob ID of a ${kind}`);
    const sealed = await seal('Grüße', { to: { keys: recipient } });
    equal(await (await open(sealed.stream, { with: { keys: privateKey } })).text(), 'Grüße');
  });

  tool.test('a password opens what it sealed, and another one does not', async () => {
    const recipients = [passwordRecipient('Ärger', { name: 'scrypt', logN: 10 })];
    const { stream } = await encrypt(new Blob(['secret']).stream(), { format: 'sealpin', recipients });
    const sealed = await new Response(stream).blob();
    equal(await inspect(sealed), { kind: 'sealpin', opens: 'password' });
    equal(await (await open(sealed, { with: { password: 'A\u0308rger' } })).text(), 'secret');
    await fails('decrypt_failed', () => open(sealed, { with: { password: 'other' } }));
    await fails('wrong_kind', async () => open(sealed, { with: { keys: (await generateKeys()).privateKey } }));
  });

  tool.test('post-quantum keys, and several at once', async () => {
    const [first, second] = [await generateKeys({ postQuantum: true }), await generateKeys({ postQuantum: true })];
    const container = await (await seal('hello', { to: { keys: [first.publicKey, second.recipient] } })).bytes();
    for (const { privateKey } of [first, second])
      equal(await (await open(container, { with: { keys: privateKey } })).text(), 'hello');
    await fails('decrypt_failed', async () => open(container, { with: { keys: (await generateKeys()).privateKey } }));
  });

  tool.test('a file key opens its own file, with and without a header', async () => {
    const { publicKey, privateKey } = await generateKeys();
    const container = await (await seal('hello', { to: { keys: publicKey } })).bytes();
    const fileKey = await fileKeyOf(new Blob([container]).stream(), { identities: parseIdentities(privateKey) });
    equal(await (await open(container, { with: { fileKey } })).text(), 'hello');
    await fails('decrypt_failed', () => open(container, { with: { fileKey: new Uint8Array(16) } }));
    await fails('key_invalid', () => open(container, { with: { fileKey: new Uint8Array(5) } }));

    const { payload, fileKey: another } = await encryptPayload(new Blob(['bare']).stream());
    const bare = new Uint8Array(await new Response(payload).arrayBuffer());
    equal(await inspect(bare), { kind: 'detached' });
    equal(await (await open(bare, { with: { fileKey: another } })).text(), 'bare');
    await fails('wrong_kind', () => open(bare, { with: { keys: privateKey } }));
  });

  tool.test('what cannot be opened says why', async () => {
    const { publicKey, privateKey } = await generateKeys();
    const container = await (await seal(pattern(100_000), { to: { keys: publicKey } })).bytes();
    const attempt = (source: Source) => async () => (await open(source, { with: { keys: privateKey } })).bytes();
    await fails('not_encrypted', attempt('plain text'));
    await fails('unsupported_version', attempt('age-encryption.org/v2\n'));
    await fails(['container_invalid', 'decrypt_failed'], attempt(container.subarray(0, -1)));
    await fails(['container_invalid', 'decrypt_failed'], attempt(container.subarray(0, -40_000)));
    await fails('decrypt_failed', attempt(container.map((byte, index) => (index === 90_000 ? byte ^ 1 : byte))));
    await fails('wrong_kind', () => open(container, { with: { password: 'x' } }));
    await fails('key_invalid', () => open(container, { with: { keys: publicKey } }));
    await fails('key_invalid', () => seal('', { to: { keys: privateKey } }));
    await fails('no_recipients', () => seal('', { to: { keys: [] } }));
    await fails('password_invalid', () => seal('', { to: { password: '' } }));
    await fails('service_answer', () =>
      seal(new Response('no such file', { status: 404 }), { to: { keys: publicKey } }),
    );
    for (const wrong of [undefined, null, 5, [1, 2], { size: 1 }])
      ok(
        (await thrownBy(() => cidOf(wrong as unknown as Source))) instanceof TypeError,
        `${JSON.stringify(wrong)} is refused`,
      );
  });

  tool.test('blob IDs are those of the profile', async () => {
    equal(await cidOf(''), 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku');
    ok((await cidOf(pattern(1_048_576))).startsWith('bafkrei'), 'one leaf');
    ok((await cidOf(pattern(1_048_577))).startsWith('bafybei'), 'two leaves');
  });
}

/** Sealing with a password, whose derivation needs more memory than workerd has. */
export function passwordSealing(tool: Tool): void {
  tool.test('a password is stretched at full cost', async () => {
    const container = await (await seal('secret', { to: { password: 'Ärger' } })).bytes();
    const sealed = new TextDecoder().decode(container);
    ok(/^sealpin\/v1\n-> scrypt [^ ]+ 18\n/.test(sealed), sealed.slice(0, 60));
  });
}

/** Streams that end early. */
export function endings(tool: Tool): void {
  const chunks = (count: number) => Array.from({ length: count }, () => pattern(200_000));

  tool.test('an aborted signal ends sealing with its reason, and cancels the source', async () => {
    const { publicKey } = await generateKeys();
    const stop = new AbortController();
    const source = watched(chunks(20), { stalls: true });
    const sealed = await seal(source.stream, { to: { keys: publicKey }, signal: stop.signal });
    const reader = sealed.stream.getReader();
    await reader.read();
    stop.abort(gone);
    const seen = await thrownBy(async () => {
      while (!(await reader.read()).done);
    });
    ok(seen === gone, 'the stream fails with the reason');
    ok((await thrownBy(() => sealed.cid)) === gone, 'so does the blob ID');
    equal(source.cancelled.length, 1);
    const late = watched(chunks(1));
    ok(
      (await thrownBy(() => seal(late.stream, { to: { keys: publicKey }, signal: stop.signal }))) === gone,
      'a signal that is aborted already ends it before it begins',
    );
    equal(late.cancelled.length, 1);
  });

  tool.test('an aborted signal ends opening, also while the beginning is waited for', async () => {
    const { publicKey, privateKey } = await generateKeys();
    const container = await (await seal(pattern(3_000_000), { to: { keys: publicKey } })).bytes();
    for (const bytes of [10, 1_500_000]) {
      const stop = new AbortController();
      const source = watched([container.subarray(0, bytes)], { stalls: true });
      const reading = thrownBy(async () =>
        (await open(source.stream, { with: { keys: privateKey }, signal: stop.signal })).bytes(),
      );
      setTimeout(() => stop.abort(gone), 20);
      ok((await reading) === gone, `after ${bytes} bytes`);
      equal(source.cancelled.length, 1);
    }
    const stop = new AbortController();
    const source = watched([pattern(100)], { stalls: true });
    setTimeout(() => stop.abort(gone), 20);
    ok((await thrownBy(() => cidOf(source.stream, { signal: stop.signal }))) === gone, 'the blob ID');
    equal(source.cancelled.length, 1);
  });

  tool.test('a stream that is cancelled cancels its source', async () => {
    const { publicKey, privateKey } = await generateKeys();
    const sealing = watched(chunks(3), { stalls: true });
    const sealed = await seal(sealing.stream, { to: { keys: publicKey } });
    await sealed.stream.cancel(gone);
    equal(sealing.cancelled.length, 1);
    ok((await thrownBy(() => sealed.cid)) === gone, 'the blob ID is given up');

    const container = await (await seal(pattern(300_000), { to: { keys: publicKey } })).bytes();
    const opening = watched([container.subarray(0, 200_000)], { stalls: true });
    const opened = await open(opening.stream, { with: { keys: privateKey } });
    await opened.stream.cancel(gone);
    equal(opening.cancelled.length, 1);
  });

  tool.test('a source is released when sealing, opening or inspecting fails or needs no more of it', async () => {
    const { publicKey } = await generateKeys();
    const other = await generateKeys();
    const container = await (await seal(pattern(300_000), { to: { keys: publicKey } })).bytes();
    const released = async (work: (stream: ReadableStream<Uint8Array>) => Promise<unknown>, bytes: Uint8Array) => {
      const source = watched([bytes], { stalls: true });
      await thrownBy(() => work(source.stream));
      // Some engines tell the source a moment later.
      for (let turns = 0; turns < 2000 && source.cancelled.length === 0; turns += 1)
        await new Promise((resolve) => {
          setTimeout(resolve, 2);
        });
      equal(source.cancelled.length, 1, work.toString());
    };
    await released((stream) => seal(stream, { to: { keys: 'nonsense' } }), container);
    await released((stream) => open(stream, { with: { keys: 'nonsense' } }), container);
    await released((stream) => open(stream, { with: { keys: other.privateKey } }), container);
    await released((stream) => open(stream, { with: { keys: other.privateKey } }), pattern(100_000));
    await released((stream) => open(stream, { with: { fileKey: new Uint8Array(3) } }), container);
    await released((stream) => inspect(stream), container);
    await released((stream) => inspect(stream), pattern(100_000));
  });

  tool.test('the error of a source is the error of what is made of it', async () => {
    const broken = () =>
      new ReadableStream<Uint8Array>({
        start: (controller) => controller.enqueue(pattern(100)),
        pull: (controller) => controller.error(gone),
      });
    const { publicKey } = await generateKeys();
    const sealed = await seal(broken(), { to: { keys: publicKey } });
    ok((await thrownBy(() => sealed.bytes())) === gone, 'sealing');
    ok((await thrownBy(() => sealed.cid)) === gone, 'the blob ID of the container');
    ok((await thrownBy(() => cidOf(broken()))) === gone, 'the blob ID');
  });
}
