/** The bytes of a blob, from whoever has them: every block is checked against the blob ID, so nobody has to be trusted. */
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import { fileFromCar } from '../shared/ipfs/index.ts';
import type { Context } from './context.ts';
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
  const failures: { host: string; error: SealpinError }[] = [];
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
  const [first] = failures;
  if (failures.length === 1) throw first!.error;
  // If they disagree, the failure that is not plain absence says more.
  const told = failures.find(({ error }) => error.code !== 'not_found') ?? first!;
  throw new SealpinError(told.error.code, `nobody gave the blob: ${failures.map(({ host, error }) => `${host}: ${error.message}`).join('; ')}`, { cause: told.error });
}

async function fromOne(cid: string, source: URL, context: Context): Promise<ReadableStream<Uint8Array>> {
  const { signal, pace } = context;
  const answer = await send(new URL(`ipfs/${cid}?format=car`, source), { method: 'GET', headers: { accept: 'application/vnd.ipld.car' }, signal, pace });
  if (answer.status === 200) return fileFromCar(cid, answer.body, { signal });
  // What a gateway says is of no use to people; the connection is freed.
  await readAnswer(answer).catch((error: unknown) => {
    if (!isSealpinError(error)) throw error;
  });
  if (answer.status === 404 || answer.status === 410) throw new SealpinError('not_found', `${source.host} does not have this blob`, { hint: 'check the blob ID, or ask another service or gateway' });
  throw new SealpinError('service_answer', `${source.host} answers with status ${answer.status}`);
}
