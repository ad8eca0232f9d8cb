import { expect, test } from 'vitest';
import { encrypt, generateKeyPair, identityFromPkcs8, open, recipientFromSpki } from '../../../crypto/index.ts';
import { present } from '../../../../testkit/present.ts';

test.each([
  {
    title: 'pieces that were all there when it was closed',
    stream: () =>
      new ReadableStream<Uint8Array>({
        type: 'bytes',
        start(controller) {
          for (let piece = 0; piece < 3; piece += 1) controller.enqueue(new Uint8Array(100_000).fill(7));
          controller.close();
        },
      }),
  },
  { title: 'the body of a response', stream: () => present(new Response(new Uint8Array(300_000).fill(7)).body) },
])('a byte stream that ends short of what a read would like: $title', async ({ stream }) => {
  const { pkcs8, spki } = await generateKeyPair();
  for (const format of ['age', 'sealpin'] as const) {
    const opened = await open((await encrypt(stream(), { format, recipients: [recipientFromSpki(spki)] })).stream);
    if (opened.kind !== format) throw new Error(opened.kind);
    const plain = new Uint8Array(await new Response(await opened.decrypt([identityFromPkcs8(pkcs8)])).arrayBuffer());
    expect(plain.length).toBe(300_000);
    expect(plain.every((byte) => byte === 7)).toBe(true);
  }
});
