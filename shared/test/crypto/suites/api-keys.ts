import {
  generateKeyPair,
  newAccountId,
  newApiKey,
  parseApiKey,
  sealPrivateKey,
  unsealPrivateKey,
  type CryptoProvider,
} from '../../../crypto/index.ts';
import { equal, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { hex, text } from '../streams.ts';
import { present } from '../../../../testkit/present.ts';

/** API keys and what is wrapped under them. */
export function apiKeys(tool: Tool, provider: CryptoProvider): void {
  tool.test('an API key comes back from its text, with its account, secret and hash', async () => {
    for (let round = 0; round < 50; round += 1) {
      const key = await newApiKey(newAccountId(provider), provider);
      ok(/^sp_[0-9A-Za-z]{71}$/.test(key.text), key.text);
      equal(key.hash, hex(provider.sha256(text(key.text))));
      const parsed = await parseApiKey(key.text);
      equal(parsed?.secret, key.secret);
      equal([parsed?.text, parsed?.account, parsed?.hash], [key.text, key.account, key.hash]);
    }
  });

  tool.test('the lowest and the highest values have their text; above them nothing has', async () => {
    const account = '0'.repeat(22);
    const zero = await newApiKey(account, {
      ...provider,
      random: (bytes) => new Uint8Array(bytes).fill(0).fill(1, bytes - 1),
    });
    equal(zero.text.slice(0, 68), `sp_${account}${'0'.repeat(42)}1`);
    // 2^128 - 1 and 2^256 - 1 in base62, and the numbers after them, each with its right checksum.
    const highAccount = '7n42DGM5Tflk9n8mt7Fhc7';
    const highSecret = (
      await newApiKey(account, { ...provider, random: (bytes) => new Uint8Array(bytes).fill(255).fill(254, bytes - 1) })
    ).text
      .slice(25, 68)
      .replace(/.$/, (last) => String.fromCharCode(last.charCodeAt(0) + 1));
    const withChecksum = (body: string): string => {
      let crc = -1;
      for (const byte of text(body)) {
        crc ^= byte;
        for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
      }
      let value = ~crc >>> 0;
      let digits = '';
      for (let index = 0; index < 6; index += 1, value = Math.floor(value / 62))
        digits = present('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'[value % 62]) + digits;
      return body + digits;
    };
    const next = (digits: string): string =>
      digits.replace(/.$/, (last) => String.fromCharCode(last.charCodeAt(0) + 1));
    equal((await parseApiKey(withChecksum(`sp_${highAccount}${highSecret}`)))?.secret, new Uint8Array(32).fill(255));
    equal(
      await parseApiKey(withChecksum(`sp_${next(highAccount)}${highSecret}`)),
      undefined,
      'an account above 128 bits',
    );
    equal(
      await parseApiKey(withChecksum(`sp_${highAccount}${next(highSecret)}`)),
      undefined,
      'a secret above 256 bits',
    );
    equal(await parseApiKey(withChecksum(`sp_${'z'.repeat(65)}`)), undefined, 'the largest text');
  });

  tool.test('an API key with one wrong, missing or surplus character is refused', async () => {
    const { text: key } = await newApiKey(newAccountId(provider), provider);
    for (let at = 0; at < key.length; at += 1) {
      equal(
        await parseApiKey(key.slice(0, at) + (key[at] === 'a' ? 'b' : 'a') + key.slice(at + 1)),
        undefined,
        `character ${at} changed`,
      );
      equal(await parseApiKey(key.slice(0, at) + key.slice(at + 1)), undefined, `character ${at} left out`);
    }
    for (const surplus of [`${key}0`, ` ${key}`, `${key}\n`, key.toUpperCase(), '', 'sp_'])
      equal(await parseApiKey(surplus), undefined);
  });

  tool.test(
    'a private key opens under the API key, record and public key it was wrapped for, and no other',
    async () => {
      const { pkcs8, spki } = await generateKeyPair(provider);
      const account = newAccountId(provider);
      const key = await newApiKey(account, provider);
      const sealed = await sealPrivateKey(key, { id: 'k1', pkcs8, spki });
      equal(sealed.length, 12 + pkcs8.length + 16);
      equal(await unsealPrivateKey(key, { id: 'k1', sealed, spki }), pkcs8);
      ok(hex(sealed) !== hex(await sealPrivateKey(key, { id: 'k1', pkcs8, spki })), 'the same nonce twice');
      const other = await generateKeyPair(provider);
      await fails('decrypt_failed', () =>
        newApiKey(account, provider).then((stranger) => unsealPrivateKey(stranger, { id: 'k1', sealed, spki })),
      );
      await fails('decrypt_failed', () => unsealPrivateKey(key, { id: 'k2', sealed, spki }));
      await fails('decrypt_failed', () => unsealPrivateKey(key, { id: 'k1', sealed, spki: other.spki }));
      await fails('decrypt_failed', () =>
        unsealPrivateKey({ ...key, account: newAccountId(provider) }, { id: 'k1', sealed, spki }),
      );
      for (const length of [0, 12, 27, sealed.length - 1])
        await fails('decrypt_failed', () =>
          unsealPrivateKey(key, { id: 'k1', sealed: sealed.subarray(0, length), spki }),
        );
      for (let at = 0; at < sealed.length; at += 1)
        await fails('decrypt_failed', () =>
          unsealPrivateKey(key, {
            id: 'k1',
            sealed: sealed.map((byte, index) => (index === at ? byte ^ 1 : byte)),
            spki,
          }),
        );
    },
  );
}
