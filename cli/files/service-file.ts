/** A file of the account by its file ID: the service has encrypted it, or stores it as it came. */
import { resolve } from 'node:path';
import { openSealedFile } from '../../client/stored-files.ts';
import type { StoredFile } from '../../shared/api.ts';
import { cleanFilename } from '../../shared/filename.ts';
import type { Context } from '../context.ts';
import { freePath, safeName } from '../io/safe-name.ts';
import { authorizedService, api, sdkHttp } from '../remote/client.ts';
import { parseFileId } from '../remote/file-id.ts';
import { checkPlacing, openDestination, type Placing } from './destination.ts';
import { receiveFile } from './received-files.ts';

/**
 * Writes a file that the service encrypted: every block verified against the blob ID, and size and
 * name against the header, which the API key opens.
 * @param placing without an output it is written here under its own name
 * @returns what the service says of a file that was encrypted before it was stored, or not at all,
 * and of which nothing is written
 * @throws the codes of `openSealedFile` and `receiveFile`
 */
export async function writeServiceFile(
  id: string,
  placing: Omit<Placing, 'outputFile'> & { readonly outputFile: string | undefined },
  context: Context,
): Promise<StoredFile | undefined> {
  const { output, signal, cwd } = context;
  const { outputFile, force } = placing;
  const fileId = parseFileId(id);
  checkPlacing(placing, output);
  if (outputFile !== undefined) await openDestination({ ...placing, outputFile }, context);
  const service = await authorizedService(context);
  const about = await api(service, context).file(fileId);
  if (about.mode === 'plain') return about;
  const { fileKey, info } = await openSealedFile(sdkHttp(service, context), service.apiKey, fileId, signal);
  const name = info.filename ?? fileId;
  const file = { cid: about.cid, fileKey, name, size: info.size };
  const own = safeName(cleanFilename(name));
  const taken = new Set<string>();
  const freeName = outputFile !== undefined || force ? undefined : () => freePath('.', own, { cwd, taken });
  const placed = { ...placing, freeName, outputFile: outputFile ?? (await freeName?.()) ?? own };
  const { size, wrote, outputFile: path } = await receiveFile(file, placed, service.url.href, context);
  if (path === '-') return undefined;
  output.note(wrote);
  await output.result({ output: resolve(cwd, path), size, fileId, blobId: about.cid, name }, []);
  return undefined;
}
