/**
 * Published clients of tus, unmodified: what they upload, pause, continue and terminate is stored
 * to the byte.
 */
import { randomBytes } from 'node:crypto';
import { execFile } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { promisify } from 'node:util';
import * as tus from 'tus-js-client';
import { describe, expect, it } from 'vitest';
import { programPath, withProgram } from '../../../../testkit/programs/programs.ts';
import { temporaryDirectory } from '../../../../testkit/temporary-directory.ts';
import { onEachServer } from './each-server.ts';
import { send } from './request.ts';
import type { TusServer } from './servers.ts';
import { pausedAfter, start } from './tus-js.ts';
import { itemOf, present } from '../../../../testkit/present.ts';
import { inCi, long } from '../../../../testkit/long-run.ts';

/** Length of TUSKit's PATCH: less than a leaf, and no divisor of one. */
const chunkSize = 512_000;
const file = randomBytes((long ? 2 ** 21 : 2 ** 20) + 12_345);
const run = promisify(execFile);
// The declarations of tus-js-client leave it out.
const { FileUrlStorage } = tus as unknown as {
  FileUrlStorage: new (path: string) => NonNullable<tus.UploadOptions['urlStorage']>;
};

/** Cases beside which the short form has others that send the same requests. */
function inLongForm<T>(...cases: T[]): T[] {
  return long ? cases : [];
}

async function onDisk(): Promise<string> {
  const path = join(await temporaryDirectory(), 'file.bin');
  await writeFile(path, file);
  return path;
}

async function statusOf(server: TusServer, url: string): Promise<number> {
  return (await send('HEAD', url, { ...server.headers, 'Tus-Resumable': '1.0.0' })).status;
}

onEachServer((server) => {
  const isStored = async (url: string): Promise<void> => {
    expect((await server().stored(url)).equals(file)).toBe(true);
  };

  describe('tus-js-client in Node', () => {
    it.each<[string, tus.UploadOptions]>([
      ['with the beginning in the creation', { chunkSize, uploadDataDuringCreation: true }],
      ...inLongForm<[string, tus.UploadOptions]>(
        ['in one request', {}],
        ['in chunks of 512,000 bytes', { chunkSize }],
        ['whole in the creation', { uploadDataDuringCreation: true }],
      ),
    ])('uploads a buffer %s', async (_, options) => {
      await isStored(await start(server(), file, options).finished);
    });

    it.each<[string, tus.UploadOptions]>([
      ...inLongForm<[string, tus.UploadOptions]>(['in one request', {}]),
      ['in chunks of 512,000 bytes', { chunkSize }],
    ])('uploads a file from a disk %s', async (_, options) => {
      const stream = createReadStream(await onDisk());
      await isStored(await start(server(), stream, options).finished);
    });

    it.each<[string, tus.UploadOptions]>([
      ...inLongForm<[string, tus.UploadOptions]>(['of a known length', { uploadSize: file.length }]),
      ['whose length is known at its end', { uploadLengthDeferred: true }],
    ])('uploads a stream %s', async (_, options) => {
      const stream = new PassThrough();
      stream.end(file);
      await isStored(await start(server(), stream, { chunkSize, ...options }).finished);
    });

    it('uploads an empty file', async () => {
      const url = await start(server(), Buffer.alloc(0)).finished;
      expect((await server().stored(url)).length).toBe(0);
    });

    it.runIf(long)('continues after a pause between two chunks', async () => {
      const url = await new Promise<string>((resolve, reject) => {
        void pausedAfter(2, server(), file, { chunkSize }).then((upload) => {
          upload.options.onSuccess = () => resolve(present(upload.url));
          upload.options.onError = reject;
          upload.start();
        }, reject);
      });
      await isStored(url);
    });

    it('continues after a pause in the middle of a request', async () => {
      const url = await new Promise<string>((resolve, reject) => {
        let isPaused = false;
        const { upload, finished } = start(server(), file, {
          onProgress: (sent) => {
            if (isPaused || sent === 0) return;
            isPaused = true;
            upload.abort().then(() => upload.start(), reject);
          },
        });
        finished.then(resolve, reject);
      });
      await isStored(url);
    });

    it('continues in another client, from the URL that the first one kept', async () => {
      const urlStorage = new FileUrlStorage(join(await temporaryDirectory(), 'urls.json'));
      const { url } = await pausedAfter(2, server(), file, { chunkSize, urlStorage });
      const next = await new Promise<tus.Upload>((resolve, reject) => {
        const upload: tus.Upload = new tus.Upload(file, {
          endpoint: server().endpoint,
          headers: server().headers,
          chunkSize,
          urlStorage,
          onSuccess: () => resolve(upload),
          onError: reject,
        });
        void upload.findPreviousUploads().then(([previous]) => {
          upload.resumeFromPreviousUpload(present(previous));
          upload.start();
        }, reject);
      });
      expect(next.url).toBe(url);
      await isStored(present(url));
    });

    it('terminates an upload', async () => {
      const upload = await pausedAfter(1, server(), file, { chunkSize });
      expect(await statusOf(server(), present(upload.url))).toBe(200);
      await upload.abort(true);
      expect(await statusOf(server(), present(upload.url))).toBe(404);
    });
  });

  withProgram('tuspy-python', { probe: ['-c', 'import tusclient'], isOptional: true }, () => {
    describe('tuspy', () => {
      const script = join(import.meta.dirname, 'tuspy.py');
      const tuspy = async (path: string, options: Record<string, unknown>): Promise<string> => {
        const all = { endpoint: server().endpoint, headers: server().headers, file: path, ...options };
        return (await run(present(programPath('tuspy-python')), [script, JSON.stringify(all)])).stdout.trim();
      };

      it.each<[string, Record<string, unknown>]>(
        inLongForm<[string, Record<string, unknown>]>(
          [
            'in chunks of 512,000 bytes, with checksums that the server does not ask for',
            { chunkSize, checksum: true },
          ],
          ['in one request', {}],
          ['with its asynchronous client', { chunkSize, asynchronous: true }],
        ),
      )('uploads a file %s', async (_, options) => {
        await isStored(await tuspy(await onDisk(), options));
      });

      inCi('continues in another process, from the URL that the first one kept', async () => {
        const path = await onDisk();
        const options = { chunkSize, checksum: true, urls: `${path}.urls` };
        const url = await tuspy(path, { ...options, stopAt: 2 * chunkSize });
        expect(await tuspy(path, options)).toBe(url);
        await isStored(url);
      });
    });
  });

  withProgram('curl', { probe: ['--version'] }, () => {
    describe('curl', () => {
      /**
       * Sends a request with curl, and resolves with the status and the headers of the response.
       */
      async function curl(args: readonly string[]): Promise<{ status: number; headers: Headers }> {
        const own = Object.entries(server().headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
        const { stdout } = await run('curl', [
          '-sS',
          '-D',
          '-',
          '-o',
          '/dev/null',
          '-H',
          'Tus-Resumable: 1.0.0',
          ...own,
          ...args,
        ]);
        // An interim response, 100 Continue, comes before the last one.
        const [first = '', ...lines] = itemOf(stdout.trimEnd().split('\r\n\r\n'), -1).split('\r\n');
        const headers = new Headers(
          lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
        );
        return { status: Number(first.split(' ')[1]), headers };
      }
      const create = async (): Promise<string> => {
        const about = ['-H', `Upload-Length: ${file.length}`, '-H', 'Upload-Metadata: filename ZmlsZS5iaW4='];
        const { status, headers } = await curl(['-X', 'POST', ...about, server().endpoint]);
        expect(status).toBe(201);
        return new URL(present(headers.get('Location')), server().endpoint).href;
      };
      const offsetOf = async (url: string): Promise<number> =>
        Number((await curl(['--head', url])).headers.get('Upload-Offset'));

      it('uploads a file in PATCHes of 512,000 bytes, asking for the offset before each, and deletes it', async () => {
        const url = await create();
        const part = join(await temporaryDirectory(), 'part');
        for (let offset = 0; offset < file.length; offset = await offsetOf(url)) {
          await writeFile(part, file.subarray(offset, offset + chunkSize));
          const type = 'Content-Type: application/offset+octet-stream';
          const args = ['-X', 'PATCH', '-H', type, '-H', `Upload-Offset: ${offset}`, '--data-binary', `@${part}`, url];
          const { status, headers } = await curl(args);
          expect(status).toBe(204);
          expect(Number(headers.get('Upload-Offset'))).toEqual(Math.min(offset + chunkSize, file.length));
        }
        await isStored(url);
        expect((await curl(['-X', 'DELETE', url])).status).toBe(204);
        expect((await curl(['--head', url])).status).toBe(404);
      });
    });
  });
});
