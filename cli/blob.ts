/** The bytes of a blob, from whoever has them: every block is checked against the blob ID, so nobody has to be trusted. */
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import { fileFromCar } from '../shared/ipfs/index.ts';
import type { Context } from './context.ts';
import type { Sink } from './files.ts';
import { readAnswer, send } from './http.ts';
import { findService, noService } from './service.ts';

/**
 * The service first, then the configured gateways. When one fails midway the next one goes on where it stopped: both give the
 * same bytes, or fail the check.
 *
 * @param cid a checked blob ID
 * @throws (through the stream) not_found when nobody has it, content_mismatch, service_unreachable, service_answer
 */
export async function fetchBlob(cid: string, context: Context): Promise<ReadableStream<Uint8Array>> {
  const { url, gateways } = await findService(context);
  const sources = url === undefined ? gateways : [url, ...gateways];
  if (sources.length === 0) throw noService();
  const bytes = fromAll(cid, sources, context);
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await bytes.next();
          if (done === true) controller.close();
          else controller.enqueue(value);
        } catch (error) {
          controller.error(error);
        }
      },
      async cancel() {
        await bytes.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}

async function* fromAll(cid: string, sources: readonly URL[], context: Context): AsyncGenerator<Uint8Array> {
  const failures: Failure[] = [];
  let delivered = 0;
  for (const source of sources) {
    try {
      let skip = delivered;
      for await (const chunk of await fromOne(cid, source, context)) {
        const fresh = chunk.subarray(Math.min(skip, chunk.length));
        skip -= chunk.length - fresh.length;
        if (fresh.length === 0) continue;
        delivered += fresh.length;
        yield fresh;
      }
      return;
    } catch (error) {
      if (context.signal.aborted || !(error instanceof SealpinError)) throw error;
      failures.push({ host: source.host, error });
      if (failures.length < sources.length) context.output.note(`${source.host}: ${error.message}; asking the next one`);
    }
  }
  throw together(failures);
}

type Failure = { readonly host: string; readonly error: SealpinError };

function together(failures: readonly Failure[]): SealpinError {
  const [first] = failures;
  if (failures.length === 1) return first!.error;
  // If they disagree, the failure that is not plain absence says more.
  const told = failures.find(({ error }) => error.code !== 'not_found') ?? first!;
  return new SealpinError(told.error.code, `nobody gave the blob: ${failures.map(({ host, error }) => `${host}: ${error.message}`).join('; ')}`, { cause: told.error });
}

/**
 * A whole CAR of a blob, checked while it is written to a sink that is made anew for each source.
 *
 * @returns the path that the sink gave
 * @throws as `fetchBlob`
 */
export async function fetchBlobAsCar(cid: string, sink: () => Promise<Sink>, context: Context): Promise<{ path: string | undefined; bytes: number }> {
  const { url, gateways } = await findService(context);
  const sources = url === undefined ? gateways : [url, ...gateways];
  if (sources.length === 0) throw noService();
  const failures: Failure[] = [];
  for (const source of sources) {
    const target = await sink();
    try {
      const progress = context.output.progress('fetching');
      let bytes = 0;
      const tap = new TransformStream<Uint8Array, Uint8Array>({
        async transform(chunk, controller) {
          await target.write(chunk);
          bytes += chunk.length;
          progress.add(chunk.length);
          controller.enqueue(chunk);
        },
      });
      const file = fileFromCar(cid, (await fetchCar(cid, source, context)).pipeThrough(tap), { signal: context.signal });
      await file.pipeTo(new WritableStream());
      progress.done();
      return { path: await target.commit(), bytes };
    } catch (error) {
      if (context.signal.aborted || !(error instanceof SealpinError) || isOurs(error)) throw error;
      failures.push({ host: source.host, error });
    } finally {
      await target.abort();
    }
  }
  throw together(failures);
}

/** Whether a failure is that of the disk here, which no other source mends. */
function isOurs(error: SealpinError): boolean {
  return error.code === 'disk_full' || error.code === 'file_unwritable' || error.code === 'file_exists';
}

async function fromOne(cid: string, source: URL, context: Context): Promise<ReadableStream<Uint8Array>> {
  return fileFromCar(cid, await fetchCar(cid, source, context), { signal: context.signal });
}

async function fetchCar(cid: string, source: URL, context: Context): Promise<ReadableStream<Uint8Array>> {
  const { signal, pace } = context;
  const answer = await send(new URL(`ipfs/${cid}?format=car`, source), { method: 'GET', headers: { accept: 'application/vnd.ipld.car' }, signal, pace });
  if (answer.status === 200) return answer.body;
  // What a gateway says is of no use to people; the connection is freed.
  await readAnswer(answer).catch((error: unknown) => {
    if (!isSealpinError(error)) throw error;
  });
  if (answer.status === 404 || answer.status === 410) throw new SealpinError('not_found', `${source.host} does not have this blob`, { hint: 'check the blob ID, or ask another service or gateway' });
  throw new SealpinError('service_answer', `${source.host} answers with status ${answer.status}`);
}
