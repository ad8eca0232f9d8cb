/** Uploads with tus-js-client as its users make them. */
import type { Readable } from 'node:stream';
import { Upload, type UploadOptions } from 'tus-js-client';
import type { TusServer } from './servers.ts';

export type Started = {
  upload: Upload;
  /**
   * Resolves with the URL of the upload when all is uploaded, and rejects when the client gives up.
   */
  finished: Promise<string>;
};

/** Metadata with a name, which a file needs in encrypted mode. */
const metadata = { filename: 'fïle 1.bin', filetype: 'application/octet-stream' };

/** Starts an upload; what is not among the options is as the client has it by default. */
export function start(server: TusServer, file: Buffer | Readable, options: UploadOptions = {}): Started {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  // In Node it takes Node's streams, which its declarations leave out.
  const upload: Upload = new Upload(file as Buffer, {
    endpoint: server.endpoint,
    headers: server.headers,
    metadata,
    ...options,
    onSuccess: () => resolve(upload.url ?? ''),
    onError: reject,
  });
  upload.start();
  return { upload, finished: promise };
}

/**
 * Starts an upload, and resolves once the server has accepted so many chunks and the client is
 * paused.
 */
export async function pausedAfter(
  chunks: number,
  server: TusServer,
  file: Buffer,
  options: UploadOptions,
): Promise<Upload> {
  return await new Promise((resolve, reject) => {
    let accepted = 0;
    const { upload, finished } = start(server, file, {
      ...options,
      onChunkComplete() {
        accepted += 1;
        if (accepted === chunks) upload.abort().then(() => resolve(upload), reject);
      },
    });
    finished.catch(reject);
  });
}
