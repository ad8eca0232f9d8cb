import {
  encrypt,
  encryptDetached,
  generateKeyPair,
  open,
  openDetached,
  parseIdentities,
  parseRecipients,
  passwordIdentity,
  passwordRecipient,
  identityFromPkcs8,
  recipientFromSpki,
  webProvider,
  type CryptoProvider,
} from '../../../crypto/index.ts';
import { isSealpinError } from '../../../errors.ts';
import { equal, ok, type Tool } from '../../../../testkit/assertions.ts';
import { isInNode } from '../../../../testkit/browsers/engine.ts';
import { collect, digest, pattern, pieces, seeded, text } from '../streams.ts';
import { seal, unseal } from './containers.ts';
import { present } from '../../../../testkit/present.ts';

const mebibyte = 2 ** 20;

/** A source that counts what is taken from it, and records its cancel. */
function counted(total: number, failAt = Infinity) {
  const state = { given: 0, cancelled: undefined as unknown };
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (state.given >= failAt) throw new Error('the disk failed');
      if (state.given >= total) controller.close();
      else controller.enqueue(new Uint8Array(65_536));
      state.given += 65_536;
    },
    cancel(reason) {
      state.cancelled = reason;
    },
  });
  return { state, stream };
}

const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20));

/** Tests of how streams behave: what is held back, what is passed on, what is shared. */
export function flow(tool: Tool, provider: CryptoProvider): void {
  tool.test('S88: with the same random bytes every runtime and provider makes the same container', async () => {
    const fixed = seeded(provider);
    const { recipient } = await generateKeyPair(seeded(provider, 2));
    const plaintext = pattern(100_000);
    equal(
      await digest('SHA-256', await seal(fixed, 'age', parseRecipients(recipient), plaintext)),
      'b72edc1655c96fd398f4319428daed4af7e0722fe125f13e20621402672d9143',
    );
    equal(
      await digest('SHA-256', await seal(fixed, 'sealpin', parseRecipients(recipient), plaintext)),
      '2b4b78cdb381dda35aba19dfea806b26f300397bc6896ef0cb616a28cad8db66',
    );
    equal(
      await digest(
        'SHA-256',
        await seal(fixed, 'sealpin', [passwordRecipient('x', { name: 'scrypt', logN: 10 })], plaintext),
      ),
      'ce6afa39a87a5b0b26b9f24d2d697dd16bb1dd30fb4e4906ea66e7969b50320b',
    );
  });

  tool.test('S90: a reader that stops is waited for, and nothing more is taken from the source', async () => {
    const { recipient, privatePem, pkcs8, spki } = await generateKeyPair(provider);
    for (const format of ['age', 'sealpin'] as const) {
      const { state, stream } = counted(200 * mebibyte);
      const reader = (
        await encrypt(stream, { format, recipients: parseRecipients(recipient), provider })
      ).stream.getReader();
      await reader.read();
      await reader.read();
      await settle();
      ok(state.given <= 4 * mebibyte, `${format}: ${state.given} bytes were taken for two pieces`);
      await reader.cancel('enough');
      equal(state.cancelled, 'enough', 'the reason of the cancel');
      await settle();
      ok(state.given <= 4 * mebibyte, 'it goes on after a cancel');
    }
    const container = await seal(provider, 'sealpin', parseRecipients(recipient), new Uint8Array(8 * mebibyte));
    let given = 0;
    let cancelled: unknown;
    const opened = await open(
      new ReadableStream<Uint8Array>({
        pull(controller) {
          controller.enqueue(container.slice(given, given + 65_536));
          given += 65_536;
        },
        cancel(reason) {
          cancelled = reason;
        },
      }),
      { provider },
    );
    if (opened.kind !== 'sealpin') throw new Error(`it is ${opened.kind}`);
    const reader = (await opened.decrypt(parseIdentities(privatePem))).getReader();
    await reader.read();
    await settle();
    ok(given <= 4 * mebibyte, `${given} bytes were taken for one piece`);
    await reader.cancel('enough');
    equal(cancelled, 'enough');

    const made = await encryptDetached(pieces(new Uint8Array(4 * mebibyte)), {
      recipient: recipientFromSpki(spki),
      provider,
    });
    const payload = await collect(made.payload);
    const header = await made.header('f', { filename: null, contentType: 'x', size: 4 * mebibyte });
    const detached = await openDetached(header, { fileId: 'f', identities: [identityFromPkcs8(pkcs8)], provider });
    let rangeCancelled: unknown;
    const part = await detached.decryptRange({
      start: 100_000,
      end: 4 * mebibyte,
      read: async (offset, length) => {
        let at = offset;
        return new ReadableStream<Uint8Array>({
          pull(controller) {
            const piece = payload.slice(at, Math.min(offset + length, at + 65_536));
            at += piece.length;
            if (piece.length > 0) controller.enqueue(piece);
            else controller.close();
          },
          cancel(reason) {
            rangeCancelled = reason;
          },
        });
      },
    });
    const partReader = part.getReader();
    await partReader.read();
    await partReader.cancel('enough');
    equal(rangeCancelled, 'enough', 'the reason of the cancel of a range');
  });

  tool.test('the sources of a part are let go when the part is done', async () => {
    const { pkcs8, spki } = await generateKeyPair(provider);
    const plaintext = pattern(300_000);
    const made = await encryptDetached(pieces(plaintext), { recipient: recipientFromSpki(spki), provider });
    const payload = await collect(made.payload);
    const opened = await openDetached(
      await made.header('f', { filename: null, contentType: 'x', size: plaintext.length }),
      { fileId: 'f', identities: [identityFromPkcs8(pkcs8)], provider },
    );
    for (const [start, end] of [
      [0, 10],
      [100_000, 200_000],
      [290_000, 300_000],
    ] as const) {
      let open = 0;
      const part = await opened.decryptRange({
        start,
        end,
        async read(offset) {
          open += 1;
          // It would go on to the end of the payload.
          let at = offset;
          return new ReadableStream<Uint8Array>({
            pull(controller) {
              controller.enqueue(payload.slice(at, at + 5000));
              at += 5000;
            },
            cancel() {
              open -= 1;
            },
          });
        },
      });
      equal(await collect(part), plaintext.subarray(start, end));
      // Some engines tell a source a moment later.
      for (let turns = 0; turns < 200; turns += 1) {
        await settle();
        if (open === 0) break;
      }
      equal(open, 0, `sources left open by ${start} to ${end}`);
    }
  });

  tool.test('S90: a source that fails makes the stream fail with the same error', async () => {
    const { recipient, privatePem } = await generateKeyPair(provider);
    const { stream } = counted(10 * mebibyte, 3 * mebibyte);
    const reader = (
      await encrypt(stream, { format: 'age', recipients: parseRecipients(recipient), provider })
    ).stream.getReader();
    const read = async (): Promise<unknown> => {
      try {
        while (!(await reader.read()).done);
        return undefined;
      } catch (error) {
        return error;
      }
    };
    const first = await read();
    ok(first instanceof Error && first.message === 'the disk failed', `it fails with ${String(first)}`);
    equal((await read()) === first, true, 'the second error');
    const container = await seal(provider, 'sealpin', parseRecipients(recipient), new Uint8Array(3 * mebibyte));
    let at = 0;
    const failing = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (at >= 2 * mebibyte) throw new Error('the network failed');
        controller.enqueue(container.slice(at, at + 65_536));
        at += 65_536;
      },
    });
    const message = await unseal(provider, failing, parseIdentities(privatePem)).then(
      () => 'opened',
      (error: Error) => error.message,
    );
    equal(message, 'the network failed');
  });

  tool.test('a header that cannot be opened cancels its source', async () => {
    const { recipient } = await generateKeyPair(provider);
    const stranger = await generateKeyPair(provider);
    const container = await seal(provider, 'sealpin', parseRecipients(recipient), pattern(100_000));
    let reasonGiven: unknown;
    const opened = await open(
      new ReadableStream<Uint8Array>({
        pull: (controller) => controller.enqueue(container),
        cancel: (reason) => void (reasonGiven = reason),
      }),
      { provider },
    );
    if (opened.kind !== 'sealpin') throw new Error(`it is ${opened.kind}`);
    await opened.decrypt(parseIdentities(stranger.privatePem)).catch(() => undefined);
    ok(isSealpinError(reasonGiven, 'decrypt_failed'), `cancelled with ${String(reasonGiven)}`);
  });

  tool.test('after a wrong password others can be tried on the same stream', async () => {
    const container = await seal(
      provider,
      'sealpin',
      [passwordRecipient('right', { name: 'scrypt', logN: 10 })],
      pattern(100_000),
    );
    const opened = await open(pieces(container), { provider });
    if (opened.kind !== 'sealpin') throw new Error(`it is ${opened.kind}`);
    const others = ['wronger', 'right', 'never asked for'];
    const reasons: unknown[] = [];
    const plaintext = await opened.decrypt([passwordIdentity('wrong')], async ({ reason }) => {
      reasons.push(reason);
      return [passwordIdentity(present(others.shift()))];
    });
    equal(await collect(plaintext), pattern(100_000));
    equal(reasons, ['wrong_password', 'wrong_password']);
    equal(others, ['never asked for']);
  });

  tool.test('a payload that is damaged or cut off says after how many bytes of the file', async () => {
    const { recipient, privatePem } = await generateKeyPair(provider);
    const identities = parseIdentities(privatePem);
    for (const [format, chunkBytes] of [
      ['age', 65_536],
      ['sealpin', 16_384],
    ] as const) {
      const container = await seal(provider, format, parseRecipients(recipient), pattern(3 * chunkBytes));
      // The last chunk of the one format is full, that of the other is empty.
      const lastBytes = format === 'age' ? chunkBytes + 16 : 16;
      const second = container.length - lastBytes - (format === 'age' ? 1 : 2) * (chunkBytes + 16);
      const cases: [Uint8Array, number, string][] = [
        [container.map((byte, at) => (at === second ? byte ^ 1 : byte)), chunkBytes, 'damaged'],
        [container.subarray(0, second + 100), chunkBytes, 'damaged or cut off'],
        [container.subarray(0, second), chunkBytes, 'cut off'],
      ];
      for (const [bytes, position, how] of cases) {
        const error: unknown = await unseal(provider, pieces(bytes), identities).catch((thrown: unknown) => thrown);
        if (!isSealpinError(error)) throw new Error(String(error));
        equal(error.reason, 'payload');
        ok(error.message.endsWith(`${how} after byte ${position}`), `${format}: ${error.message}`);
      }
    }
  });

  tool.test('S89: many encryptions at once do not touch each other', async () => {
    const { recipient, privatePem } = await generateKeyPair(provider);
    const plaintexts = Array.from({ length: isInNode ? 100 : 20 }, (_, index) =>
      pattern(20_000 + index * 997, index + 1),
    );
    const containers = await Promise.all(
      plaintexts.map((plaintext, index) =>
        seal(provider, index % 2 === 0 ? 'sealpin' : 'age', parseRecipients(recipient), plaintext),
      ),
    );
    const back = await Promise.all(
      containers.map((container) => unseal(provider, pieces(container, 9999), parseIdentities(privatePem))),
    );
    for (const [index, plaintext] of plaintexts.entries()) equal(back[index], plaintext, `the ${index}th`);
  });

  tool.test('results of WebCrypto are freed at once, except in Chromium, which would keep them', async () => {
    const { recipient, privatePem } = await generateKeyPair(provider);
    const container = await seal(provider, 'sealpin', parseRecipients(recipient), pattern(40_000));
    const { subtle } = crypto;
    const { decrypt } = subtle;
    const results: ArrayBuffer[] = [];
    subtle.decrypt = async (...o) => {
      const result = await decrypt.apply(subtle, o);
      results.push(result);
      return result;
    };
    try {
      await unseal(provider, pieces(container), parseIdentities(privatePem));
    } finally {
      subtle.decrypt = decrypt;
    }
    const isChromium = /Chrome/.test(navigator.userAgent); // or HeadlessChrome
    const chunks = results.slice(-3).map(({ byteLength }) => byteLength);
    if (provider === webProvider) equal(chunks, isChromium ? [16_384, 16_384, 7_232] : [0, 0, 0]);
  });

  tool.test('a stream that is locked, and one that gives no bytes, are a TypeError', async () => {
    const { recipient } = await generateKeyPair(provider);
    const locked = pieces(text('x'));
    locked.getReader();
    const streams: ReadableStream<Uint8Array>[] = [
      locked,
      new ReadableStream<unknown>({ start: (controller) => controller.enqueue('text') }) as ReadableStream<Uint8Array>,
    ];
    for (const stream of streams) {
      const error = await encrypt(stream, { format: 'age', recipients: parseRecipients(recipient), provider })
        .then((made) => collect(made.stream))
        .then(
          () => undefined,
          (thrown: unknown) => thrown,
        );
      ok(error instanceof TypeError, `it is ${String(error)}`);
    }
  });
}
