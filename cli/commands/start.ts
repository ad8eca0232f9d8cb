/** `sealpin start`: the whole service on this machine. */
import { spawn } from 'node:child_process';
import { closeSync, fstatSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { enableCompileCache } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { type Homes, control } from '../local/control.ts';
import { chooseKubo, describeLeft, describePeers, parseKuboWish } from '../local/external-kubo.ts';
import { isRunning } from '../local/process.ts';
import { quietSqlite } from '../local/quiet.ts';
import { loadRun, loadSecrets, localPaths, makeLocal } from '../local/state.ts';
import { makeDataDirectory } from '../io/paths.ts';

const defaultPort = 7420;
/** How long `--detach` waits for the service that it started. */
const readyMs = 30_000;

export const command = defineCommand({
  about:
    'Runs the Worker that `wrangler deploy` would send, in workerd, with an IPFS node of its own that is not on the network; ' +
    '--kubo-api adds one that may be. The first start makes an account and keeps its API key in the data directory. Ctrl-C stops it.',
  args: {
    port: {
      type: 'string',
      valueHint: 'number',
      description: `The port on 127.0.0.1 (${defaultPort}; 0: any that is free)`,
    },
    'kubo-api': {
      type: 'string',
      valueHint: 'url',
      description:
        'Store new files in this Kubo (its RPC address), at later starts too; none: in the built-in node again. SEALPIN_KUBO_TOKEN is its bearer token',
    },
    'cors-origin': {
      type: 'string',
      valueHint: 'origin',
      description: 'Let pages of this origin call the service from a browser, to develop them',
    },
    detach: { type: 'boolean', description: 'Return when it is ready and leave it running; see stop and status' },
  },
  examples: [
    { command: 'sealpin start', does: 'in the foreground, on port 7420' },
    { command: 'sealpin start --detach --port 0', does: 'in the background, on a free port' },
    {
      command: 'sealpin start --kubo-api http://127.0.0.1:5001',
      does: 'with a Kubo of your own, which later starts use again',
    },
  ],
  async run({ args, context }) {
    const port = parsePort(args.port);
    const kubo = parseKuboWish(args['kubo-api'], context.env['SEALPIN_KUBO_TOKEN']);
    const origins = args['cors-origin'] === undefined ? [] : [parseOrigin(args['cors-origin'])];
    await refuseSecond(context.dataDir, args);
    const warning = await makeDataDirectory(context.dataDir);
    if (warning !== undefined) context.output.warn(warning);
    quietSqlite();
    if (args.detach) {
      await chooseKubo(context.dataDir, kubo, context.signal); // refused here, and not in the log of the process
      return await detach(context, args);
    }
    // Miniflare is 6 MB of source; what V8 made of it at one start is kept for the next.
    enableCompileCache(localPaths(context.dataDir).cache);
    const { startService } = await import('../local/service.ts');
    const service = await startService({
      dataDir: context.dataDir,
      port,
      kubo,
      origins,
      log: (line) => tell(context, line),
    });
    await report(context, service);
    const onSignal = (): void => void service.stop();
    context.signal.addEventListener('abort', onSignal, { once: true });
    if (context.signal.aborted) onSignal();
    await service.stopped;
    context.output.note('stopped');
    return 0;
  },
});

function parsePort(text: string | undefined): number {
  const port = text === undefined ? defaultPort : Number(text);
  if (!/^[0-9]{1,5}$/.test(text ?? '0') || port > 65_535)
    throw new SealpinError('usage', `--port ${text} is not a port`, { hint: 'use a number from 0 to 65535' });
  return port;
}

/** Says of a second start what it did not do. */
async function refuseSecond(
  dataDir: string,
  args: { readonly port: string | undefined; readonly 'kubo-api': string | undefined },
): Promise<void> {
  const run = await loadRun(dataDir);
  if (run === undefined || !isRunning(run.service)) return;
  const flags = (['port', 'kubo-api'] as const).filter((name) => args[name] !== undefined).map((name) => `--${name}`);
  const unused =
    flags.length === 0 ? '' : `; ${flags.join(' and ')} ${flags.length === 1 ? 'was' : 'were'} not applied`;
  throw new SealpinError('already_running', `the local service is running already, at ${run.url}${unused}`, {
    hint: flags.length === 0 ? 'see: sealpin status' : 'stop it first with: sealpin stop',
  });
}

/** An origin, as a browser writes it into `Origin` (RFC 6454 section 6.2). */
function parseOrigin(text: string): string {
  const url = URL.parse(text);
  if (url === null || !['http:', 'https:'].includes(url.protocol) || url.origin !== text) {
    throw new SealpinError('usage', `--cors-origin ${text} is not an origin`, {
      hint: 'it is scheme, host and port of the page, such as http://localhost:3000',
    });
  }
  return text;
}

async function report(
  context: Context,
  { url, account, homes }: { url: string; account: string; homes: Homes },
): Promise<void> {
  const { output } = context;
  const keyFile = localPaths(context.dataDir).secrets;
  const { kubo, left } = homes;
  output.note(`the service listens at ${url}`);
  if (kubo?.status === 'ok')
    output.note(`new files go to the Kubo at ${kubo.url} (${kubo.version}, ${describePeers(kubo.peers)})`);
  if (left !== undefined) output.warn(describeLeft(left));
  output.note(`the API key of its account is in ${keyFile} (apiKey)`);
  output.note(`try: ${curlLine(url, keyFile)}`);
  await output.result({ url, account, keyFile, ...(kubo && { kubo }) }, [url]);
}

/**
 * A line that works as it stands in any shell of POSIX, and puts the key neither into an argument of a program, where
 * other users could see it, nor into the history of the shell.
 */
function curlLine(url: string, keyFile: string): string {
  const file = `'${keyFile.replaceAll("'", String.raw`'\''`)}'`;
  const header = String.raw`s/.*"apiKey": "\(.*\)".*/header = "Authorization: Bearer \1"/p`;
  return `sed -n '${header}' ${file} | curl -sS --config - ${url}/v1/storage`;
}

/** A line of the Worker's log, with the time: as JSON with `--json`, in words for a person. */
function tell(context: Context, line: string): void {
  const time = new Date().toISOString();
  let entry: {
    event?: string;
    method?: string;
    route?: string;
    status?: number;
    ms?: number;
    error?: string;
    detail?: string;
    reason?: string;
    requestId?: string;
    service?: string;
  };
  try {
    entry = JSON.parse(line) as typeof entry;
  } catch {
    context.output.warn(`${time} ${line}`); // workerd's own words
    return;
  }
  if (context.output.json) {
    context.stderr.write(`${JSON.stringify({ time, ...entry })}\n`);
    return;
  }
  const { event, method, route, status, ms, error, detail, service, reason } = entry;
  const id = entry.requestId === undefined ? '' : ` (request ${entry.requestId})`;
  if (event === 'request') context.output.note(`${time} ${method} ${reason ?? route} ${status}, ${ms} ms${id}`);
  else if (event === 'pin.unpin')
    context.output.warn(`${time} a deleted file is still pinned at ${service} (${error}); it is tried again later`);
  else context.output.warn(`${time} ${event}: ${error ?? detail ?? line}${id}`);
}

/** Starts the same command as a process of its own and waits until it is ready. */
async function detach(
  context: Context,
  args: { port: string | undefined; 'kubo-api': string | undefined; 'cors-origin': string | undefined },
): Promise<number> {
  await makeLocal(context.dataDir);
  const paths = localPaths(context.dataDir);
  if ((await control(paths.control, 'status').catch(notYet)) !== undefined) throw new SealpinError('already_running');
  // For appending: another service may be about to write to it. The new one, once it holds the lock, rotates the log.
  const log = openSync(paths.log, 'a', 0o600);
  const { size } = fstatSync(log);
  const { port, 'kubo-api': kubo, 'cors-origin': origin } = args;
  const flags = Object.entries({ port, 'kubo-api': kubo, 'cors-origin': origin }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}=${value}`],
  );
  const child = spawn(
    process.execPath,
    [...process.execArgv, process.argv[1]!, 'start', ...flags, `--data-dir=${context.dataDir}`],
    {
      detached: true,
      stdio: ['ignore', 'ignore', log],
      env: { ...context.env, SEALPIN_PASSWORD: undefined, SEALPIN_API_KEY: undefined }, // secrets that are none of its business
      cwd: '/',
    },
  );
  closeSync(log);
  let ended = false;
  child.once('exit', () => (ended = true));
  for (const end = performance.now() + readyMs; performance.now() < end; await sleep(50)) {
    if (ended) return await failed(paths.log, size);
    if (context.signal.aborted) {
      child.kill('SIGTERM');
      throw context.signal.reason;
    }
    const status = await control(paths.control, 'status').catch(notYet);
    if (status === undefined || status.pid !== child.pid) continue;
    child.unref();
    const { account = '' } = await loadSecrets(context.dataDir);
    await report(context, { url: status.url, account, homes: status });
    return 0;
  }
  child.kill('SIGTERM');
  throw new SealpinError('internal', `the service was not ready within ${readyMs / 1000} s`, {
    hint: `see ${paths.log}`,
  });
}

function notYet(error: unknown): undefined {
  if (error instanceof SealpinError && error.code === 'not_running') return undefined;
  throw error;
}

/** The process said why on its stderr, which is the log: after what was there, unless it was rotated. */
async function failed(log: string, before: number): Promise<never> {
  const all = await readFile(log);
  const text = all.subarray(all.length < before ? 0 : before).toString();
  const said = (word: string): string | undefined => new RegExp(`^sealpin: ${word}: (.*)$`, 'm').exec(text)?.[1];
  throw new SealpinError('internal', said('error') ?? 'the service ended at once', {
    hint: said('hint') ?? `see ${log}`,
  });
}
