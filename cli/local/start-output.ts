/** What `start` prints: that the service is ready, and each line of its log. */
import type { Context } from '../context.ts';
import type { Homes } from './control.ts';
import { describeLeft, describePeers } from './external-kubo.ts';

/** Prints the address of a service that is ready, where its API key is, and a request to try. */
export async function printReady(
  { output }: Context,
  { url, account, homes, keyFile }: { url: string; account: string; homes: Homes; keyFile: string },
): Promise<void> {
  const { kubo, left } = homes;
  output.note(`the service listens at ${url}`);
  output.note(`open links and encrypted files in a browser at ${url}/`);
  if (kubo?.status === 'ok')
    output.note(`new files go to the Kubo at ${kubo.url} (${kubo.version}, ${describePeers(kubo.peers)})`);
  if (left !== undefined) output.warn(describeLeft(left));
  output.note(`the API key of its account is in ${keyFile} (apiKey)`);
  output.note(`try: ${curlLine(url, keyFile)}`);
  await output.result({ url, account, keyFile, ...(kubo && { kubo }) }, [url]);
}

/**
 * A command that works unchanged in any POSIX shell, and puts the key neither into an argument of a program, where other
 * users could see it, nor into the shell history.
 */
function curlLine(url: string, keyFile: string): string {
  const file = `'${keyFile.replaceAll("'", String.raw`'\''`)}'`;
  const header = String.raw`s/.*"apiKey": "\(.*\)".*/header = "Authorization: Bearer \1"/p`;
  return `sed -n '${header}' ${file} | curl -sS --config - ${url}/v1/storage`;
}

/** The fields of a line of the log that are shown to people. */
type Entry = {
  readonly event?: string;
  readonly method?: string;
  readonly route?: string;
  readonly status?: number;
  readonly ms?: number;
  readonly error?: string;
  readonly detail?: string;
  readonly reason?: string;
  readonly requestId?: string;
  readonly service?: string;
};

/** Prints a line of the Worker's log, with the time: as JSON with `--json`, as text for a person. */
export function logLine({ output, stderr }: Context, line: string): void {
  const time = new Date().toISOString();
  let entry: Entry;
  try {
    entry = JSON.parse(line) as Entry;
  } catch {
    output.warn(`${time} ${line}`); // a line of workerd itself
    return;
  }
  if (output.json) {
    stderr.write(`${JSON.stringify({ time, ...entry })}\n`);
    return;
  }
  const { event, method, route, status, ms, error, detail, service, reason } = entry;
  const id = entry.requestId === undefined ? '' : ` (request ${entry.requestId})`;
  if (event === 'request') output.note(`${time} ${method} ${reason ?? route} ${status}, ${ms} ms${id}`);
  else if (event === 'pin.unpin')
    output.warn(`${time} a deleted file is still pinned at ${service} (${error}); unpinning is retried later`);
  else output.warn(`${time} ${event}: ${error ?? detail ?? line}${id}`);
}
