import {
  generateKeyPair,
  generatePostQuantumKeyPair,
  parseIdentities,
  parseRecipients,
  rewrap,
  encrypt,
  type CryptoProvider,
} from '../../../crypto/index.ts';
import { newHybridKey } from '../../../crypto/stanzas/hybrid.ts';
import { equal, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { collect, pattern, pieces, text } from '../streams.ts';
import { seal, unseal } from './containers.ts';
import { itemOf } from '../../../../testkit/present.ts';

/** Keys that withstand a quantum computer. */
export function postQuantum(tool: Tool, provider: CryptoProvider): void {
  tool.test('a post-quantum key pair is two texts of one key, and opens what is encrypted to it', async () => {
    const { privateText, publicText, recipient } = await generatePostQuantumKeyPair(provider);
    ok(/^age1tagpq1[02-9ac-hj-np-z]{2005}$/.test(recipient), `${recipient.length} characters`);
    ok(
      /^# recipient: age1tagpq1\S+\nSEALPIN-SECRET-KEY-PQ-1[02-9AC-HJ-NP-Z]{58}\n$/.test(privateText),
      'the text of private.key',
    );
    equal(publicText, `${recipient}\n`);
    equal(
      parseRecipients(publicText).map(({ text, postQuantum }) => [text, postQuantum]),
      [[recipient, true]],
    );
    const plaintext = pattern(100_000);
    const container = await seal(provider, 'age', parseRecipients(publicText), plaintext);
    equal(await unseal(provider, pieces(container), parseIdentities(privateText)), plaintext);
    const stranger = await generatePostQuantumKeyPair(provider);
    await fails('decrypt_failed', () => unseal(provider, pieces(container), parseIdentities(stranger.privateText)));
    const classic = await generateKeyPair(provider);
    await fails('decrypt_failed', () => unseal(provider, pieces(container), parseIdentities(classic.privatePem)));
    const forTwo = await seal(provider, 'age', parseRecipients(stranger.publicText + publicText), text('two'));
    for (const key of [privateText, stranger.privateText, `${classic.privatePem}${privateText}`])
      equal(await unseal(provider, pieces(forTwo), parseIdentities(key)), text('two'));
    await fails('key_invalid', () => seal(provider, 'sealpin', parseRecipients(publicText), text('x')));
  });

  tool.test('S39: post-quantum recipients and others are not mixed unless that is asked for', async () => {
    const quantum = await generatePostQuantumKeyPair(provider);
    const classic = await generateKeyPair(provider);
    const recipients = parseRecipients(quantum.publicText + classic.publicPem);
    await fails('invalid_request', () => seal(provider, 'age', recipients, text('x')));
    const { stream } = await encrypt(pieces(text('x')), { format: 'age', recipients, mix: true, provider });
    const container = await collect(stream);
    for (const key of [quantum.privateText, classic.privatePem])
      equal(await unseal(provider, pieces(container), parseIdentities(key)), text('x'));
    const rewrapping = { identities: parseIdentities(classic.privatePem), recipients, provider };
    await fails('invalid_request', () => rewrap(pieces(container), rewrapping));
    ok(
      (await collect(await rewrap(pieces(container), { ...rewrapping, mix: true }))).length > 0,
      'rewrapping with the mixture asked for',
    );
    const hybrids = [
      ...parseRecipients(quantum.publicText),
      ...parseRecipients(newHybridKey(provider, 'mlkem768x25519').recipient),
    ];
    ok((await seal(provider, 'age', hybrids, text('x'))).length > 0, 'two kinds of post-quantum keys');
  });

  tool.test('post-quantum texts with a wrong letter, part or case are refused', async () => {
    const { privateText, publicText, recipient } = await generatePostQuantumKeyPair(provider);
    const other = await generatePostQuantumKeyPair(provider);
    const secret = itemOf(privateText.split('\n'), 1);
    for (const file of [
      secret.slice(0, -1),
      secret.toLowerCase(),
      secret.replace('SEALPIN', 'AGE'),
      secret.slice(0, 30) + secret.slice(30).toLowerCase(),
      privateText.replace(recipient, other.recipient),
      publicText,
    ])
      await fails('key_invalid', () => parseIdentities(file), file.slice(0, 40));
    for (const file of [
      recipient.slice(0, -1),
      recipient.toUpperCase(),
      recipient.replace('age1tagpq1', 'age1pq1'),
      recipient.replace('age1tagpq1', 'age1tag1'),
      secret,
      privateText,
    ])
      await fails('key_invalid', () => parseRecipients(file), file.slice(0, 40));
  });
}
