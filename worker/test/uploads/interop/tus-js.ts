/** Uploads with tus-js-client as its users make them. */
import type { Readable } from 'node:stream';
import { Upload, type UploadOptions } from 'tus-js-client';
import type { TusServer } from './servers.ts';

export type Started = {
  upload: Upload;
  /** Resolves with the URL of the upload when all is uploaded, and rejects when the client gives up. */
  finished: Promise<string>;
};

/** In encrypted mode a file needs a name. */
const metadata = { filename: 'fïle 1.bin', filetype: 'application/octet-stream' };

/** Starts an upload; what is not among the options is as the client has it by default. */
export function start(server: TusServer, file: Buffer | Readable, options: UploadOptions = {}): Started {
  let upload: Upload;
  const finished = new Promise<string>((resolve, reject) => {
    // In Node it takes Node's streams, which its declarations leave out.
    upload = new Upload(file as Buffer, {
      endpoint: server.endpoint,
      headers: server.headers,
      metadata,
      ...options,
      onSuccess: () => resolve(upload.url ?? ''),
      onError: reject,
    });
    upload.start();
  });
  return { upload: upload!, finished };
}
