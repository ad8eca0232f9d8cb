/** Output of `start`: that the service is ready, and each line of its log. */
import type { Context } from '../context.ts';
import { jsonIn } from '../io/json-text.ts';
import { visibleJson } from '../terminal/output.ts';
import type { OtherBackends } from './control.ts';
import type { Proxies } from './front/proxies.ts';
import { quoted } from '../terminal/local-commands.ts';
import { describeLeft, describePeers } from './backends/external-kubo.ts';

/**
 * Prints the address of a service that is ready, where its API key is, a request to try, and
 * `stop`: how it is stopped.
 */
export async function printReady(
  { output, dataDir }: Context,
  o: {
    readonly url: string;
    readonly port?: number | undefined;
    readonly account: string | undefined;
    readonly others: OtherBackends;
    /** Of a public service. */
    readonly front?: { readonly proxies: Proxies } | undefined;
    readonly keyFile: string;
    readonly stop: string;
  },
): Promise<void> {
  const { url, port, keyFile, front } = o;
  const { kubo, left } = o.others;
  if (front === undefined) output.note(`the service listens at ${url}`);
  else {
    output.note(`the service is ${url}`);
    output.note(`it listens on port ${port} for the proxy at ${front.proxies.names.join(', ')}`);
  }
  output.note(`open links and encrypted files in a browser at ${url}/`);
  if (kubo?.status === 'ok')
    output.note(`new files go to the Kubo at ${kubo.url} (${kubo.version}, ${describePeers(kubo.peers)})`);
  if (left !== undefined) output.warn(describeLeft(left));
  if (front === undefined) {
    output.note(`the API key of its account is in ${keyFile} (apiKey)`);
    output.note('try the HTTP API:', curlLines(url, keyFile));
  } else {
    output.note(`the operator's token is in ${keyFile} (adminToken)`);
    output.note(`make an account with: sealpin account create <label> --data-dir ${quoted(dataDir)}`);
  }
  output.note(o.stop);
  const account = front === undefined ? { account: o.account } : { port };
  await output.result({ url, ...account, keyFile, ...(kubo && { kubo }) }, [url]);
}

/**
 * A command that works unchanged in any POSIX shell, and puts the key neither into an argument of a
 * program, where other users could see it, nor into the shell history. In lines, most of which fit
 * a terminal of 80 columns.
 */
function curlLines(url: string, keyFile: string): string[] {
  const file = quoted(keyFile);
  const header = String.raw`s/.*"apiKey": "\(.*\)".*/header = "Authorization: Bearer \1"/p`;
  return [`sed -n '${header}' \\`, `  ${file} |`, `  curl -sS --config - ${url}/v1/storage`];
}

/** The fields of a line of the log that are shown to people. */
type LogEntry = Readonly<Record<string, string | number | undefined>>;

/**
 * Prints the lines of the Worker's log. Those before `release` are held: the requests by which the
 * service gets ready are shown below its address, or above why it did not start.
 */
export function heldLog(context: Context): { line(this: void, text: string): void; release(): void } {
  let held: string[] | undefined = [];
  return {
    line: (text) => (held === undefined ? logLine(context, text) : void held.push(text)),
    release() {
      for (const text of held ?? []) logLine(context, text);
      held = undefined;
    },
  };
}

/**
 * Prints a line of the Worker's log, with the time: as JSON with `--json`, as text for a person.
 */
function logLine({ output, stderr }: Context, line: string): void {
  const time = new Date().toISOString();
  const entry = jsonIn(line) as LogEntry | undefined;
  if (entry === undefined) {
    output.warn(`${time} ${line}`); // a line of workerd itself
    return;
  }
  if (output.json) {
    stderr.write(`${visibleJson({ time, ...entry })}\n`);
    return;
  }
  const { event, method, route, status, ms, error, detail, service, reason, requestId } = entry;
  const id = requestId === undefined ? '' : ` (request ${requestId})`;
  if (event === 'request') output.note(`${time} ${method} ${reason ?? route} ${status}, ${ms} ms${id}`);
  else if (event === 'pin.unpin')
    output.warn(
      `${time} what no file needs any more at ${service} is still pinned there (${error}); unpinning is retried later`,
    );
  else output.warn(`${time} ${event}: ${error ?? detail ?? line}${id}`);
}
