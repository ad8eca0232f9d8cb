import { describe, expect, test } from 'vitest';
import { generateKeyPair, generatePostQuantumKeyPair } from '../../../shared/crypto/index.ts';
import { backupWords, secretOf, splitWords, wordsOf } from '../../keys/backup-words.ts';
import { makePair } from '../../keys/write-pair.ts';
import { first, itemOf } from '../../../testkit/present.ts';

describe('backup words', () => {
  test('bring a pair back, of either kind', async () => {
    const classical = await generateKeyPair();
    const postQuantum = await generatePostQuantumKeyPair();
    const again = async (secret: Uint8Array): Promise<Uint8Array> => secretOf(await wordsOf(secret));
    expect(await wordsOf(classical.secret)).toHaveLength(backupWords);
    expect((await makePair(false, await again(classical.secret))).privateText).toBe(classical.privatePem);
    expect((await makePair(true, await again(postQuantum.seed))).privateText).toBe(postQuantum.privateText);
  });

  test('are taken with numbers, capitals and line breaks around them', () => {
    expect(splitWords(' 1. Absurd\t2) amount\n3 DOCTOR')).toEqual(['absurd', 'amount', 'doctor']);
  });

  test('are found among what keygen writes around them, also to a file', async () => {
    const secret = new Uint8Array(32).fill(7);
    const words = (await wordsOf(secret)).map((word, index) => `${String(index + 1).padStart(2)} ${word.padEnd(8)}`);
    for (const wordsInLine of [2, 4, 24])
      for (const prefix of ['', 'sealpin: ']) {
        const lines = [`${prefix}wrote /home/1 able/private.key`, `${prefix}its fingerprint is able-acid-1`];
        for (let at = 0; at < words.length; at += wordsInLine)
          lines.push(prefix + words.slice(at, at + wordsInLine).join('  '));
        expect(await secretOf(splitWords(`${lines.join('\n')}\n${prefix}1 more note\n`))).toEqual(secret);
      }
  });

  test('that are wrong are refused without a word of them in the message', async () => {
    const right = await wordsOf(new Uint8Array(32).fill(7));
    const mistakes = [
      right.with(3, 'canary7'),
      right.slice(1),
      right.with(0, itemOf(right, 1)).with(1, first(right)),
      [],
    ];
    for (const words of mistakes) {
      const error: unknown = await secretOf(words).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'key_invalid' });
      for (const word of words) expect(String(error)).not.toMatch(new RegExp(`\\b${word}\\b`));
    }
  });

  test('of no P-256 key are refused: zero, and what is not below the order of the curve', async () => {
    for (const byte of [0, 255])
      await expect(makePair(false, new Uint8Array(32).fill(byte))).rejects.toMatchObject({ code: 'key_invalid' });
  });
});
