/**
 * Blocks on their way to a service that speaks Kubo's RPC: one CAR, sent as the body of
 * `dag/import` while its blocks come.
 */
import { SealpinError } from '../../../shared/errors.ts';
import { carHeader, carSection } from '../../../shared/ipfs/index.ts';
import { concat } from '../../../shared/streams/concat.ts';
import { withStop } from '../../../shared/streams/timing.ts';
import type { BlockImport } from '../contract.ts';
import type { Rpc, RpcResult } from './kubo-rpc.ts';
import { multipartWriter, type MultipartWriter } from './multipart-writer.ts';

/** The request that an import sends its blocks with, and its response. */
type KuboUpload = { body: MultipartWriter; response: Promise<RpcResult> };

/** Response that reports no error. */
type Accepted = Exclude<RpcResult, { message: string }>;

export type ImportOptions = {
  /** Ends the request. */
  signal: AbortSignal;
  /** The longest wait for the service to take a piece, and for its response after the last one. */
  stepMs: number;
  /** The parameters of `dag/import`. */
  query: Readonly<Record<string, string>>;
  /** Makes sure that the response speaks of as many blocks as were sent. @throws pinning_failed */
  confirm(response: Accepted, count: number): void;
};

/** Opens an import; the request goes out with the first block. */
export function blockImport(rpc: Rpc, o: ImportOptions): BlockImport {
  // What goes wrong first aborts the request and is its reason; the rest are consequences.
  const { signal: ended, stop } = withStop(o.signal);
  let upload: KuboUpload | undefined;
  let sent = 0;

  /** Awaits one step within the time limit. A refusal may come at any time, and ends it. */
  async function step<T>({ response }: KuboUpload, work: Promise<T>): Promise<T> {
    const timer = setTimeout(() => stop(rpc.timeoutError(o.stepMs)), o.stepMs);
    const refusal = new Promise<never>((_, reject) => void response.catch(reject));
    try {
      return await Promise.race([work, refusal]);
    } catch (cause) {
      stop(cause);
      throw ended.reason;
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Awaits a step of the body. A service that refuses an import breaks it off, and its response
   * says why.
   */
  async function forward(sending: KuboUpload, work: Promise<void>): Promise<void> {
    const explained = work.catch(async (cause: unknown) => {
      accept(rpc, await sending.response);
      throw rpc.unavailable('broke off the import', cause);
    });
    await step(sending, explained);
  }

  return {
    async write(cid, bytes) {
      ended.throwIfAborted();
      upload ??= beginImport(rpc, o.query, ended);
      const { body } = upload;
      const prefix = carSection(cid, bytes.length);
      await forward(upload, body.write(sent === 0 ? concat(carHeader(), prefix) : prefix));
      await forward(upload, body.write(bytes as Uint8Array<ArrayBuffer>));
      sent += 1;
    },

    async finish() {
      ended.throwIfAborted();
      if (upload === undefined) return;
      await forward(upload, upload.body.close());
      o.confirm(accept(rpc, await step(upload, upload.response)), sent);
    },

    abort: stop,
  };
}

/** Sends the request. */
function beginImport(rpc: Rpc, query: ImportOptions['query'], signal: AbortSignal): KuboUpload {
  const body = multipartWriter();
  const response = rpc.send('dag/import', query, signal, body).then((answer) => rpc.parse(answer));
  // Where no step waits for it, nobody needs to hear of its failure before the next step.
  response.catch(() => undefined);
  return { body, response };
}

/** The response, where it reports no error. @throws the error for the message in it */
function accept(rpc: Rpc, result: RpcResult): Accepted {
  if ('message' in result) {
    // What a proxy in between makes of a connection that broke.
    if (/unexpected EOF/i.test(result.message))
      throw rpc.unavailable(`received a part of the import only: ${result.message}`);
    if (/mismatch in content integrity/i.test(result.message))
      throw new SealpinError('pinning_failed', `${rpc.id}: ${result.message}`, { reason: 'other_bytes' });
    throw rpc.refused(result.message);
  }
  const problem = pinErrorOf(result.first) ?? pinErrorOf(result.last);
  if (problem !== undefined) throw rpc.refused(problem);
  return result;
}

/** Finds the reason why a root was not pinned: Kubo reports it within a response of status 200. */
function pinErrorOf({ Root }: Record<string, unknown>): string | undefined {
  if (typeof Root !== 'object' || Root === null) return undefined;
  const { PinErrorMsg } = Root as { PinErrorMsg?: unknown };
  return typeof PinErrorMsg === 'string' && PinErrorMsg !== '' ? PinErrorMsg : undefined;
}
