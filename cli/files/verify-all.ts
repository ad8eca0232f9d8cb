/** `sealpin verify --all` and `--local`: everything that an account, or the IPFS node of the local service, holds. */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { control } from '../local/control.ts';
import { localPaths } from '../local/state.ts';
import { authorizedService } from '../remote/client.ts';
import { everyFile } from '../remote/every-file.ts';
import { openBlob, readFailure } from '../fetch/fetch-blob.ts';
import { sizeText } from '../terminal/progress.ts';

/** Reads a blob to its end. @returns its size @throws as `openBlob` */
async function verifyBlob(
  cid: string,
  context: Context,
  onBytes: (bytes: number) => void = () => undefined,
): Promise<number> {
  const stop = new AbortController();
  try {
    const blob = await openBlob(cid, { ...context, signal: AbortSignal.any([context.signal, stop.signal]) });
    for await (const chunk of blob.read(0, blob.size)) onBytes(chunk.length);
    return blob.size;
  } catch (error) {
    throw readFailure(error);
  } finally {
    stop.abort(new SealpinError('interrupted'));
  }
}

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
    output.note(`all blocks of ${counted(files, 'file')} are present and intact (${sizeText(bytes)})`);
  else output.note(`${bad.length} of ${counted(files, 'file')} cannot be read whole`);
  await output.result({ files, size: bytes, bad }, []);
  return bad.length === 0 ? 0 : 1;
}

/** @throws what says nothing of the blob: the service is away, or the command was interrupted */
async function look(cid: string, context: Context): Promise<{ size: number } | { code: string; why: string }> {
  try {
    return { size: await verifyBlob(cid, context) };
  } catch (error) {
    context.signal.throwIfAborted();
    if (!isSealpinError(error) || error.code === 'service_unreachable') throw error;
    return { code: error.code, why: error.message };
  }
}

/** Verifies every block of the IPFS node of the local service, which must run. @returns the exit code */
export async function verifyLocal({ dataDir, output }: Context): Promise<number> {
  const { blocks, bytes, bad, first } = await control(localPaths(dataDir).control, 'verify');
  if (!output.json) for (const { cid, file, why } of first) output.warn(`${cid} is ${why} (in ${file})`);
  if (bad === 0)
    output.note(
      `${counted(blocks, 'block')} of the IPFS node ${blocks === 1 ? 'is' : 'are'} present and intact (${sizeText(bytes)})`,
    );
  else
    output.note(
      `${bad} of ${counted(blocks + bad, 'block')} of the IPFS node ${bad === 1 ? 'is' : 'are'} missing or damaged`,
    );
  await output.result({ blocks, size: bytes, bad, first }, []);
  return bad === 0 ? 0 : 1;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
