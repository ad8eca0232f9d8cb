/**
 * `sealpin verify --all` and `--local`: everything that an account, or the IPFS node of the local
 * service, holds.
 */
import { isSealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { control } from '../local/control.ts';
import { localPaths } from '../local/state.ts';
import { authorizedService } from '../remote/client.ts';
import { everyFile } from '../remote/pages.ts';
import { countText, sizeText } from '../terminal/size.ts';
import { withBlob } from '../fetch/fetch-blob.ts';

/** Verifies every file of the account. @returns the exit code */
export async function verifyAccount(context: Context): Promise<number> {
  const { output } = context;
  const service = await authorizedService(context);
  const known = new Map<string, { size: number } | { code: string; why: string }>();
  const bad: { fileId: string; blobId: string; code: string; why: string }[] = [];
  let files = 0;
  let bytes = 0;
  for await (const { fileId, cid } of everyFile(service, context)) {
    const found = known.get(cid) ?? (await look(cid, context));
    if (!known.has(cid) && 'size' in found) bytes += found.size;
    known.set(cid, found);
    files += 1;
    if ('size' in found) continue;
    bad.push({ fileId, blobId: cid, ...found });
    if (!output.json) output.warn(`${fileId} (${cid}): ${found.why}`);
  }
  if (bad.length === 0)
    output.note(`all blocks of ${countText(files, 'file')} are present and intact (${sizeText(bytes)})`);
  else output.note(`${bad.length} of ${countText(files, 'file')} cannot be read whole`);
  await output.result({ files, size: bytes, bad }, []);
  return bad.length === 0 ? 0 : 1;
}

/** @throws what says nothing of the blob: the service is away, or the command was interrupted */
async function look(cid: string, context: Context): Promise<{ size: number } | { code: string; why: string }> {
  try {
    return await withBlob(cid, context, async ({ size, read }) => {
      for await (const _block of read(0, size));
      return { size };
    });
  } catch (error) {
    context.signal.throwIfAborted();
    if (!isSealpinError(error) || error.code === 'service_unreachable') throw error;
    return { code: error.code, why: error.message };
  }
}

/**
 * Verifies every block of the IPFS node of the local service, which must run.
 * @returns the exit code
 */
export async function verifyLocal({ dataDir, output }: Context): Promise<number> {
  const { blocks, bytes, bad, first } = await control(localPaths(dataDir).control, 'verify');
  if (!output.json) for (const { cid, file, why } of first) output.warn(`${cid} is ${why} (in ${file})`);
  if (bad === 0)
    output.note(
      `${countText(blocks, 'block')} of the IPFS node ${blocks === 1 ? 'is' : 'are'} present and ` +
        `intact (${sizeText(bytes)})`,
    );
  else
    output.note(
      `${bad} of ${countText(blocks + bad, 'block')} of the IPFS node ${bad === 1 ? 'is' : 'are'} missing or damaged`,
    );
  await output.result({ blocks, size: bytes, bad, first }, []);
  return bad === 0 ? 0 : 1;
}
