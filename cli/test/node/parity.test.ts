/**
 * The same requests to the embedded node and to a real Kubo: imports, pins and reads of DAGs, and
 * what goes wrong with them.
 */
import { randomBytes } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { kuboProgram, noKubo, startKubo } from '../../../testkit/programs/kubo.ts';
import { anchorAbove, ask, block, carWith, fileInParts, multipart, node, token } from './node-harness.ts';
import { first, itemOf } from '../../../testkit/present.ts';

if (kuboProgram() === undefined) {
  test.skip(noKubo);
} else {
  test('the node responds to imports, pins and dag/stat as Kubo does', async () => {
    const kubo = await startKubo({ token });
    onTestFinished(() => kubo.close());
    const { url } = await node();

    /** Expects that both respond alike. */
    async function same(path: string, body?: ReturnType<typeof multipart>): Promise<void> {
      const replies = await Promise.all([url, kubo.url].map((each) => ask(each, path, body)));
      const [ours, theirs] = replies.map(({ status, text }) => ({ status, text: text.trim() }));
      expect(ours, path).toEqual(theirs);
    }

    const importOf = (...bytes: Uint8Array[]) => multipart(...bytes.map((car) => ({ bytes: car })));
    const command = 'dag/import?pin-roots=false&stats=true';
    const { leaves, parts, root } = fileInParts();
    const blocks = leaves.map((leaf) => leaf.block);
    const rootCid = root.cid.text;
    const stat = `dag/stat?arg=${rootCid}&offline=true&progress=false`;
    const pinAdd = `pin/add?arg=${rootCid}&timeout=20s&name=n`;

    await same(stat);
    await same(pinAdd);
    await same(command, importOf(carWith(root)));
    await same(command, importOf(carWith(...blocks.slice(1))));
    await same(stat);
    await same(pinAdd);
    await same(command, importOf(carWith(first(blocks), first(parts).node), carWith(itemOf(parts, 1).node)));
    await same(`pin/add?arg=${first(parts).node.cid.text}&timeout=20s`);
    await same(stat);
    await same(pinAdd);
    await same(`pin/rm?arg=${first(parts).node.cid.text}`);
    await same(`pin/ls?arg=${rootCid}&type=recursive&names=true`);
    await same(`pin/ls?arg=${first(blocks).cid.text}`);
    await same(`block/stat?arg=${first(blocks).cid.text}`);
    await same(`cat?arg=${rootCid}&offset=${leafBytes - 5}&length=${leafBytes + 10}`);
    await same('dag/import?pin-roots=false', importOf(carWith(root)));
    await same(command, importOf(carWith()));

    const anchor = anchorAbove(root);
    await same(command, importOf(carWith(anchor)));
    await same(`pin/add?arg=${anchor.cid.text}&timeout=20s`);
    await same(`pin/rm?arg=${rootCid}`);
    await same(`pin/ls?arg=${rootCid}`);
    await same(`dag/stat?arg=${anchor.cid.text}&offline=true&progress=false`);

    const other = block('raw', randomBytes(100));
    await same(command, importOf(carWith({ cid: other.cid, bytes: Buffer.from('other') })));
    await same(command, importOf(carWith(other, root).subarray(0, -5)));
    await same(command, importOf(carWith(root).subarray(0, 80)));
    const cut = importOf(carWith(other));
    await same(command, { ...cut, body: cut.body.subarray(0, -9) });
    await same(stat);
  });
}
