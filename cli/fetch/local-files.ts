/**
 * The files of the local service's node, read where they lie instead of through a socket. The
 * service is asked for each file: it says whether it may be read, and where it is. Who reads them
 * hashes every block, as that of any other source.
 */
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { SealpinError } from '../../shared/errors.ts';
import { type BlockSource, carType, maxBlockBytes, parseCid } from '../../shared/ipfs/index.ts';
import { cancelQuietly } from '../../shared/streams/cancel-quietly.ts';
import { byteReader } from '../../shared/streams/reader.ts';
import { errnoOf } from '../errno.ts';
import { readText, sendRequest } from '../io/http.ts';
import type { Context } from '../context.ts';
import { isDataFileName, partSuffix } from '../local/node/data-file-name.ts';
import type { FileRun } from '../local/node/direct.ts';
import { localPaths } from '../local/state.ts';

const placesHeader = 'sealpin-places';

/** Far more than the places of the leaves below one node have. */
const maxPlacesBytes = 2 ** 20;

/**
 * Reads leaves from the disk and other blocks from the service.
 * @param service the local service of the data directory, as a source
 */
export function localFiles(url: URL, service: BlockSource, { dataDir, timeouts }: Context): BlockSource {
  const folder = localPaths(dataDir).data;

  async function placesOf(cid: string, range: string, signal: AbortSignal): Promise<FileRun[]> {
    const response = await sendRequest(new URL(`ipfs/${cid}?format=car&dag-scope=entity&car-dups=y${range}`, url), {
      method: 'GET',
      headers: { accept: `${carType};version=1;order=dfs;dups=y`, [placesHeader]: '1' },
      signal,
      timeouts,
      name: 'it',
    });
    if (response.status === 200 && response.headers['content-type'] === 'application/json')
      return runsIn(await readText(response, maxPlacesBytes));
    await cancelQuietly(response.body);
    throw notSaid();
  }

  return {
    id: service.id,
    isShortWay: true,
    async block(cid, signal) {
      if (parseCid(cid).codec !== 'raw') return service.block(cid, signal);
      const runs = await placesOf(cid, '', signal);
      const length = runs.reduce((sum, [, , bytes]) => sum + bytes, 0);
      if (!(length <= maxBlockBytes)) throw notSaid();
      const reader = byteReader(bytesOfRuns(runs, folder));
      const bytes = await reader.read(length);
      await cancelQuietly(reader);
      return bytes;
    },
    async read(cid, offset, length, signal) {
      return bytesOfRuns(await placesOf(cid, `&entity-bytes=${offset}:${offset + length - 1}`, signal), folder);
    },
  };
}

/** @throws service_answer for anything but places in the folder of the node */
function runsIn(text: string): FileRun[] {
  try {
    const runs = JSON.parse(text) as FileRun[];
    if (runs.every(([file]) => isDataFileName(file))) return runs;
  } catch {
    // Not of this version: the same as no places.
  }
  throw notSaid();
}

const notSaid = (): SealpinError => new SealpinError('service_answer', 'it does not say where the file lies');

/** A byte stream of runs, each read into the memory of who reads the stream. */
function bytesOfRuns(runs: readonly FileRun[], folder: string): ReadableStream<Uint8Array> {
  let opened: { file: string; handle: FileHandle } | undefined;
  let index = 0;
  let done = 0;

  async function handleOf(file: string): Promise<FileHandle> {
    if (opened?.file === file) return opened.handle;
    await opened?.handle.close();
    opened = undefined;
    opened = { file, handle: await openData(join(folder, file)) };
    return opened.handle;
  }

  async function next(view: Uint8Array): Promise<number> {
    for (;;) {
      const run = runs[index];
      if (run === undefined) return 0;
      const [file, offset, bytes] = run;
      if (done === bytes) {
        index += 1;
        done = 0;
        continue;
      }
      const handle = await handleOf(file);
      const { bytesRead } = await handle.read(view, 0, Math.min(view.length, bytes - done), offset + done);
      if (bytesRead === 0) throw new SealpinError('content_mismatch', 'its data file is too short');
      done += bytesRead;
      return bytesRead;
    }
  }

  const close = async (): Promise<void> => {
    await opened?.handle.close();
    opened = undefined;
  };
  return new ReadableStream({
    type: 'bytes',
    autoAllocateChunkSize: 65_536,
    async pull(controller) {
      try {
        const request = controller.byobRequest;
        const view = request?.view;
        // With `autoAllocateChunkSize` every pull has a request.
        if (!(view instanceof Uint8Array)) throw new TypeError('a pull without a buffer to fill');
        const bytes = await next(view);
        if (bytes === 0) {
          await close();
          controller.close();
        }
        request?.respond(bytes);
      } catch (error) {
        await close();
        throw error;
      }
    },
    cancel: close,
  });
}

/** Opens a data file, which has a suffix until its catalog knows it. */
async function openData(path: string): Promise<FileHandle> {
  try {
    return await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    return await open(path + partSuffix, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  }
}
