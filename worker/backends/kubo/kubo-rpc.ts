/** Requests to Kubo's RPC and the parsing of its responses, none of which is trusted. */
import { httpClient, type HttpOptions, type JsonRecord, type Query, type Upload } from '../http-client.ts';

/**
 * The first and the last record of a response in NDJSON, often the same one; or the message of
 * Kubo's error.
 */
export type RpcResult = { first: JsonRecord; last: JsonRecord } | { message: string };

/** A response has status 200, or 500 with an error of Kubo's in it. */
const rpcApi = {
  path: 'api/v0/',
  statuses: [200, 500],
  name: 'the RPC API of Kubo',
  address: 'of the API, usually port 5001, without /api/v0',
};

/** The client of an RPC API. */
export type Rpc = ReturnType<typeof rpc>;

/**
 * Makes the client of an RPC API, as functions that know how its failures are reported.
 * @param o.url without `/api/v0/`
 */
export function rpc(o: HttpOptions) {
  const { send: request, readRecords, ...client } = httpClient(o, rpcApi);

  /** Sends a command. @param upload its body */
  function send(command: string, query: Query, signal: AbortSignal, upload?: Upload): Promise<Response> {
    return request(command, { method: 'POST', query, upload }, signal);
  }

  /**
   * Parses a whole response in JSON. After a first record Kubo can no longer change the status, so
   * the last one decides.
   */
  async function parse(response: Response): Promise<RpcResult> {
    const records = await readRecords(response);
    const [first = {}] = records;
    const last = records.at(-1) ?? first;
    return response.status === 500 || last['Type'] === 'error' ? { message: String(last['Message']) } : { first, last };
  }

  /** Runs a command with a small response, within a time limit. */
  function ask(command: string, query: Query, signal: AbortSignal, timeoutMs: number): Promise<RpcResult> {
    return client.withTimeout(signal, timeoutMs, async (limited) => parse(await send(command, query, limited)));
  }

  /** Asks for the version of the node, which shows that it responds and lets us in. */
  async function ping(signal: AbortSignal, timeoutMs: number): Promise<{ version: string }> {
    const result = await ask('version', {}, signal, timeoutMs);
    if ('message' in result) throw client.refused(result.message);
    const { Version } = result.first;
    if (typeof Version !== 'string') throw client.failed('its response to version has no Version');
    return { version: Version };
  }

  return { ...client, ask, ping, send, parse };
}
