import { resolve } from 'node:path';
import { openSealedFile } from '../../client/stored-files.ts';
import { StoredFile } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import { cleanFilename } from '../../shared/filename.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { openSink } from '../io/output-file.ts';
import { freePath, safeName } from '../io/safe-name.ts';
import { receiveFile } from '../files/received-files.ts';
import { authorizedService } from '../remote/client.ts';
import { sdkHttp } from '../remote/sdk.ts';
import { parseFileId } from '../remote/file-id.ts';
import { sizeText } from '../terminal/size.ts';
import { fetchingInterrupted, forceArg } from '../flags/args.ts';

export const command = defineCommand({
  about:
    "Fetches a file that the service encrypted, and opens it on this machine with the account's " +
    'private key, which the API key unseals (it needs the scope read). Every block is verified ' +
    'against the blob ID, and the name and size against the header of the file. Without an output it ' +
    'is written here under its own name.',
  args: {
    file_id: { type: 'positional', description: 'The file ID (see: sealpin list)' },
    output_file: {
      type: 'positional',
      required: false,
      path: true,
      description: 'Where to write, or - for standard output; its own name if left out',
    },
    force: forceArg,
  },
  service: true,
  interrupted: fetchingInterrupted,
  examples: [
    { command: 'sealpin get 6f1c2d3e-…', does: 'Under its own name, in this directory' },
    { command: 'sealpin get 6f1c2d3e-… - | less', does: 'Into a pipe; exit code 1 means that it is incomplete' },
  ],
  async run({ args, context }) {
    const { output, signal } = context;
    const fileId = parseFileId(args.file_id);
    if (args.output_file === '-' && output.json)
      throw new SealpinError('usage', '--json and the file would both go to standard output', {
        hint: 'name a file for the output',
      });
    if (args.output_file !== undefined) await openSink(args.output_file, { force: args.force, environment: context });
    const service = await authorizedService(context);
    const http = sdkHttp(service, context);
    const about = await http.json(StoredFile, { path: `v1/storage/${fileId}`, query: { data: 'false' }, signal });
    if (about.mode === 'plain')
      throw new SealpinError(
        'wrong_kind',
        'it was not encrypted by the service, but before it was stored, or not at all',
        { hint: `use: sealpin decrypt ${about.cid} ${args.output_file ?? '<output_file>'}` },
      );
    const { fileKey, info } = await openSealedFile(http, service.apiKey, fileId, signal);
    const name = info.filename ?? fileId;
    const path = args.output_file ?? (await ownPath(name, args.force, context));
    const file = { cid: about.cid, fileKey, name, size: info.size };
    const size = await receiveFile(file, path, { service: service.url.href, force: args.force }, context);
    if (path === '-') return;
    output.note(`wrote ${path} (${sizeText(size)})`);
    const written = resolve(context.cwd, path);
    await output.result({ output: written, size, fileId, blobId: about.cid, name }, []);
  },
});

/**
 * Returns the path for a file under its own name; without `--force` it is numbered where that is
 * taken.
 */
async function ownPath(name: string, force: boolean, { cwd }: Context): Promise<string> {
  const safe = safeName(cleanFilename(name));
  return force ? safe : freePath('.', safe, { cwd, taken: new Set() });
}
