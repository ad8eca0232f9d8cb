import {
  decryptPayload,
  detachedPayloadBytes,
  encryptDetached,
  encryptPayload,
  fileKeyIdentity,
  fileKeyOf,
  fileKeyText,
  generateKeyPair,
  identityFromPkcs8,
  open,
  openAt,
  openDetached,
  openWithFileKey,
  parseFileKey,
  passwordIdentity,
  passwordRecipient,
  recipientFromSpki,
  rewrap,
  type CryptoProvider,
  type Identity,
} from '../../../crypto/index.ts';
import { formats } from '../../../crypto/formats/index.ts';
import { isSealpinError } from '../../../errors.ts';
import { equal, failedWith, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { collect, hex, join, pattern, pieces, released, text } from '../streams.ts';
import { seal, unseal } from './containers.ts';

const password = passwordRecipient('secret', { name: 'scrypt', logN: 10 });

/** Fails unless `body` throws `decrypt_failed` because of the key. */
async function doesNotFit(body: () => Promise<unknown>, what: string): Promise<void> {
  const error = await body().then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  failedWith('decrypt_failed', error, what);
  equal(isSealpinError(error) && error.reason, 'no_key', what);
}

/** Files that are passed on by their file key. */
export function fileKeys(tool: Tool, provider: CryptoProvider): void {
  /** A container of each format, for a password and for a key, with its file key. */
  const containers = async (plaintext: Uint8Array) => {
    const { spki, pkcs8 } = await generateKeyPair(provider);
    const made = [];
    for (const format of formats) {
      for (const [recipient, identity] of [
        [password, passwordIdentity('secret')],
        [recipientFromSpki(spki), identityFromPkcs8(pkcs8)],
      ] as const) {
        const container = await seal(provider, format.name, [recipient], plaintext);
        const fileKey = await fileKeyOf(pieces(container), { identities: [identity], provider });
        made.push({ what: `${format.name} for a ${recipient.kind}`, format, container, fileKey });
      }
    }
    return made;
  };

  tool.test('the file key of a container opens it, whole and in part, without its password or key', async () => {
    const plaintext = pattern(100_000);
    for (const { what, format, container, fileKey } of await containers(plaintext)) {
      equal(fileKey.length, format.fileKeyBytes, what);
      const identities = [fileKeyIdentity(fileKey)];
      equal(await unseal(provider, pieces(container), identities), plaintext, what);
      equal(await collect(await openWithFileKey(pieces(container), { fileKey, provider })), plaintext, what);
      const read = async (offset: number, length: number) => pieces(container.slice(offset, offset + length));
      const part = await openAt({ bytes: container.length, read }, { identities, provider });
      equal(await collect(await part.decryptRange({ start: 70_000, end: 70_010 })), plaintext.slice(70_000, 70_010));
    }
  });

  tool.test('the file key of another container does not fit, nor does one of the other format', async () => {
    const made = await containers(text('content'));
    for (const { what, container } of made) {
      for (const other of made.filter((each) => each.container !== container)) {
        const identities = [fileKeyIdentity(other.fileKey)];
        await doesNotFit(() => unseal(provider, pieces(container), identities), `${other.what} on ${what}`);
      }
      const every: Identity[] = made.map(({ fileKey }) => fileKeyIdentity(fileKey));
      equal(await unseal(provider, pieces(container), every), text('content'), 'the one that fits among others');
    }
  });

  tool.test('a header that was changed is refused, although the file key is the right one', async () => {
    for (const { what, container, fileKey } of await containers(text('content'))) {
      // The last character but one of the first stanza's body.
      const at = String.fromCharCode(...container).indexOf('\n--- ') - 3;
      const changed = container.map((byte, index) => (index === at ? (byte === 0x41 ? 0x42 : 0x41) : byte));
      await fails(
        ['decrypt_failed', 'header_invalid'],
        () => unseal(provider, pieces(changed), [fileKeyIdentity(fileKey)]),
        what,
      );
    }
  });

  tool.test('a wrong password beside a file key that does not fit is reported as a wrong password', async () => {
    const container = await seal(provider, 'sealpin', [password], text('content'));
    const identities = [fileKeyIdentity(pattern(32)), passwordIdentity('wrong')];
    const error = await unseal(provider, pieces(container), identities).catch((thrown: unknown) => thrown);
    equal(isSealpinError(error, 'decrypt_failed') && error.reason, 'wrong_password');
  });

  tool.test('a file key has the length of one of the formats', async () => {
    for (const length of [0, 15, 17, 31, 33, 64])
      await fails('key_invalid', () => fileKeyIdentity(new Uint8Array(length)), `${length} bytes`);
  });

  tool.test('the text of a file key comes back, with the lengths of the formats and no others', () => {
    for (const { fileKeyBytes } of formats) {
      for (const key of [pattern(fileKeyBytes), new Uint8Array(fileKeyBytes), new Uint8Array(fileKeyBytes).fill(255)])
        equal(parseFileKey(fileKeyText(key)), key);
      const highest = fileKeyText(new Uint8Array(fileKeyBytes).fill(255));
      equal(parseFileKey('z'.repeat(highest.length)), undefined, 'above its bits');
      equal(parseFileKey(`${highest.slice(0, -1)}-`), undefined, 'another character');
    }
    const lengths = formats.map(({ fileKeyBytes }) => fileKeyBytes);
    for (let bytes = 0; bytes < 70; bytes += 1)
      equal(parseFileKey(fileKeyText(pattern(bytes))) !== undefined, lengths.includes(bytes), `${bytes} bytes`);
  });

  tool.test('the file key is read from the header alone, and the container is released', async () => {
    const container = await seal(provider, 'age', [password], pattern(5_000_000));
    for (const [given, fits] of [
      ['secret', true],
      ['wrong', false],
    ] as const) {
      let readBytes = 0;
      let isReleased = false;
      const source = new ReadableStream<Uint8Array>({
        pull(controller) {
          controller.enqueue(container.slice(readBytes, readBytes + 1000));
          readBytes += 1000;
        },
        cancel() {
          isReleased = true;
        },
      });
      const isRight = await fileKeyOf(source, { identities: [passwordIdentity(given)], provider }).then(
        () => true,
        () => false,
      );
      equal(isRight, fits);
      ok(isReleased, 'it is not released');
      ok(readBytes < 10_000, `${readBytes} bytes are read`);
    }
  });

  tool.test('the file key is asked for again after a wrong password, and refused where there is none', async () => {
    const container = await seal(provider, 'sealpin', [password], text('content'));
    const fileKey = await fileKeyOf(pieces(container), {
      identities: [passwordIdentity('wrong')],
      again: async ({ reason }) => (reason === 'wrong_password' ? [passwordIdentity('secret')] : undefined),
      provider,
    });
    equal(await unseal(provider, pieces(container), [fileKeyIdentity(fileKey)]), text('content'));
    const of = (bytes: Uint8Array, identities: Identity[]) => fileKeyOf(pieces(bytes), { identities, provider });
    await fails('decrypt_failed', () => of(container, [passwordIdentity('wrong')]));
    await fails('wrong_kind', () => of(container, []));
    await fails('not_encrypted', () => of(text('plain'), [passwordIdentity('secret')]));
    await fails('wrong_kind', () => of(text('sealpin/v1 detached\n...'), [passwordIdentity('secret')]));
    await fails('unsupported_version', () => of(text('sealpin/v2\n'), [passwordIdentity('secret')]));
  });

  tool.test('other recipients are given by the file key, too', async () => {
    for (const { what, format, container, fileKey } of await containers(text('content'))) {
      const rewrapped = await collect(
        await rewrap(pieces(container), {
          identities: [fileKeyIdentity(fileKey)],
          recipients: [passwordRecipient('new', { name: 'scrypt', logN: 10 })],
          provider,
        }),
      );
      equal(await unseal(provider, pieces(rewrapped), [passwordIdentity('new')]), text('content'), what);
      equal(
        await fileKeyOf(pieces(rewrapped), { identities: [passwordIdentity('new')], provider }),
        fileKey,
        format.name,
      );
    }
  });

  tool.test('the file key of the encrypted mode comes from its header, and opens header and payload', async () => {
    const { spki, pkcs8 } = await generateKeyPair(provider);
    const plaintext = pattern(40_000);
    const made = await encryptDetached(pieces(plaintext), { recipient: recipientFromSpki(spki), provider });
    const payload = await collect(made.payload);
    const file = { filename: 'a', contentType: 'text/plain', size: plaintext.length };
    const header = await made.header('file-1', file);
    const fileKey = await fileKeyOf(pieces(header), { identities: [identityFromPkcs8(pkcs8)], provider });
    equal(await collect(decryptPayload(pieces(payload), { fileKey, provider })), plaintext);
    equal(await collect(await openWithFileKey(pieces(payload), { fileKey, provider })), plaintext);
    equal(await collect(await openWithFileKey(pieces(join([header, payload])), { fileKey, provider })), plaintext);
    const identities = [fileKeyIdentity(fileKey)];
    equal((await openDetached(header, { fileId: 'file-1', identities, provider })).file, file);
    await fails('decrypt_failed', () => openDetached(header, { fileId: 'file-2', identities, provider }));
  });

  tool.test('a plain file is not opened by a file key, and is released', async () => {
    let isReleased = false;
    const plain = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(text('plain '.repeat(100))),
      cancel() {
        isReleased = true;
      },
    });
    await fails('not_encrypted', () => openWithFileKey(plain, { fileKey: pattern(32), provider }));
    ok(isReleased, 'it is not released');
    await fails('key_invalid', () => openWithFileKey(pieces(text('x')), { fileKey: pattern(31), provider }));
  });

  tool.test(
    'a payload without a header comes back by its file key, with the size of any detached payload',
    async () => {
      for (const size of [0, 1, 16_383, 16_384, 70_000]) {
        const plaintext = pattern(size);
        const { payload, fileKey } = await encryptPayload(pieces(plaintext), { provider });
        const bytes = await collect(payload);
        equal(bytes.length, detachedPayloadBytes(size));
        equal((await open(pieces(bytes), { provider })).kind, 'detached');
        equal(await collect(decryptPayload(pieces(bytes, 777), { fileKey, provider })), plaintext, `${size} bytes`);
      }
    },
  );

  tool.test('each payload has a fresh file key, or fresh chunk keys under a given one', async () => {
    const make = async (fileKey?: Uint8Array) => {
      const made = await encryptPayload(pieces(text('same')), { provider, ...(fileKey && { fileKey }) });
      return { ...made, bytes: await collect(made.payload) };
    };
    const [one, two] = [await make(), await make()];
    ok(hex(one.fileKey) !== hex(two.fileKey), 'the file key is the same');
    const [three, four] = [await make(one.fileKey), await make(one.fileKey)];
    equal(three.fileKey, one.fileKey);
    ok(hex(three.bytes.subarray(76)) !== hex(four.bytes.subarray(76)), 'the ciphertext is the same');
    equal(await collect(decryptPayload(pieces(four.bytes), { fileKey: one.fileKey, provider })), text('same'));
    for (const broken of [(bytes: number) => new Uint8Array(bytes), (bytes: number) => pattern(bytes)])
      await fails('random_failed', () =>
        encryptPayload(pieces(text('x')), { provider: { ...provider, random: broken } }),
      );
  });

  tool.test(
    'a payload does not open with another file key, cut off, without its line, or with a byte changed',
    async () => {
      const plaintext = pattern(40_000);
      const { payload, fileKey } = await encryptPayload(pieces(plaintext), { provider });
      const bytes = await collect(payload);
      const opening = (stored: Uint8Array, key = fileKey) => decryptPayload(pieces(stored), { fileKey: key, provider });
      await fails('decrypt_failed', () => collect(opening(bytes, pattern(32))), 'another file key');
      await doesNotFit(() => collect(opening(bytes, pattern(16))), 'a file key of another format');
      await fails('container_invalid', () => collect(opening(bytes.subarray(20))), 'without its line');
      for (const length of [0, 19, 20, 75, 76, 76 + 16_400, bytes.length - 1]) {
        const { bytes: prefix, error } = await released(opening(bytes.subarray(0, length)));
        failedWith(['container_invalid', 'decrypt_failed'], error, `cut at ${length}`);
        equal(prefix, plaintext.subarray(0, prefix.length));
      }
      for (const at of [0, 20, 50, 80, bytes.length - 1]) {
        const changed = bytes.map((byte, index) => (index === at ? byte ^ 1 : byte));
        await fails(['container_invalid', 'decrypt_failed'], () => collect(opening(changed)), `byte ${at}`);
      }
      for (const length of [0, 16, 31, 33]) {
        const error = await encryptPayload(pieces(plaintext), { fileKey: pattern(length), provider }).catch(
          (thrown: unknown) => thrown,
        );
        ok(error instanceof TypeError, `${length} bytes: ${String(error)}`);
      }
    },
  );
}
