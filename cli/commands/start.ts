/** `sealpin start`: the whole service on this machine. */
import { enableCompileCache } from 'node:module';
import { resolve } from 'node:path';
import packageJson from '../../package.json' with { type: 'json' };
import { parseBackupDays } from '../../shared/backup-days.ts';
import { SealpinError } from '../../shared/errors.ts';
import { defineCommand, toggle, valueFlag } from '../command.ts';
import type { Context } from '../context.ts';
import { readSmall } from '../io/input.ts';
import { makeDataDirectory } from '../io/paths.ts';
import { startDetached } from '../local/detach.ts';
import { chooseKubo, parseKuboWish } from '../local/backends/external-kubo.ts';
import { parseProxies } from '../local/front/proxies.ts';
import { packageRoot } from '../local/package-root.ts';
import { runningService } from '../local/other-service.ts';
import { quietSqlite } from '../io/quiet-sqlite.ts';
import { localPaths, refuseLostOrigin } from '../local/state.ts';
import { heldLog, printReady } from '../local/start-output.ts';
import { parseBackends, settingsIn, type Backends } from '../local/backends/worker-vars.ts';
import { visible } from '../terminal/output.ts';

const defaultPort = 7420;

export const command = defineCommand({
  about:
    'Runs the whole service, as it is deployed on Cloudflare, with an IPFS node of its own that is not on the ' +
    'network: what is stored stays on this machine. --kubo-api adds a Kubo, which may be on the network. The first ' +
    'start makes an account, and keeps its API key in the data directory, where the other commands find it. With ' +
    '--origin it is a service for others, behind a proxy that terminates TLS (see docs/self-hosting.md), without an ' +
    'account of its own. Ctrl-C stops the service.',
  args: {
    port: valueFlag('number', `The port on 127.0.0.1 (${defaultPort}; 0: any free one)`),
    'kubo-api': valueFlag(
      'url',
      'Store new files in this Kubo (its RPC address), also at later starts; none: stop using it. Token: ' +
        'SEALPIN_KUBO_TOKEN',
    ),
    origin: valueFlag(
      'origin',
      'Be a service for others at this address, such as https://files.example.com; none ends that',
    ),
    proxy: valueFlag(
      'addresses',
      'With --origin: who may connect, as addresses or CIDR blocks, separated by commas (127.0.0.1,::1). ' +
        'It must set X-Forwarded-For',
    ),
    backends: valueFlag(
      'file',
      'Store in these backends, in JSON as BACKENDS has it; their secrets are environment variables',
      { path: true },
    ),
    'cors-origin': valueFlag('origin', 'Let pages of this origin call the service from a browser, for development'),
    rollback: valueFlag(
      'copy',
      'First go back to the state before an upgrade, without what was stored since (the log names copies)',
    ),
    detach: toggle('Return once the service is ready, and leave it running; see stop and status'),
  },
  examples: [
    { command: 'sealpin start', does: 'In the foreground, on port 7420' },
    { command: 'sealpin start --detach --port 0', does: 'In the background, on a free port' },
    {
      command: 'sealpin start --kubo-api http://127.0.0.1:5001',
      does: 'With a Kubo of your own, which later starts use again',
    },
    {
      command: 'sealpin start --origin https://files.example.com --backends backends.json',
      does: 'For others, behind a proxy on this machine',
    },
  ],
  async run({ args, context }) {
    const port = parsePort(args.port);
    const kubo = parseKuboWish(args['kubo-api'], context.env['SEALPIN_KUBO_TOKEN']);
    const origins = args['cors-origin'] === undefined ? [] : [parseOrigin(args['cors-origin'], '--cors-origin')];
    const front = parseFront(args);
    if (args.backends !== undefined && args['kubo-api'] !== undefined)
      throw new SealpinError('usage', '--backends and --kubo-api exclude each other', {
        hint: 'give the Kubo an entry of the type kubo in the file',
      });
    const backends = args.backends === undefined ? undefined : await readBackends(args.backends, context);
    const backupDays = parseBackupDays(context.env['BACKUP_DAYS'], 'config_invalid');
    await refuseSecond(context, args);
    if (args.origin === undefined) await refuseLostOrigin(context.dataDir);
    packageRoot(); // refused here, before anything is written
    const warning = await makeDataDirectory(context.dataDir);
    if (warning !== undefined) context.output.warn(warning);
    const { settings, ignored } = settingsIn((front ?? backends) === undefined ? {} : context.env);
    if (ignored.length > 0)
      context.output.warn(`not taken from the environment: ${ignored.join(', ')} (see docs/self-hosting.md)`);
    quietSqlite();
    if (args.rollback !== undefined && !(await goBack(args.rollback, context))) return;
    const { secrets: keyFile, cache } = localPaths(context.dataDir);
    if (args.detach) {
      // Refused here, and not in the log of the process.
      if (backends === undefined) await chooseKubo(context.dataDir, kubo, context.signal);
      const file = args.backends === undefined ? undefined : resolve(context.cwd, args.backends);
      const { port: wanted, 'kubo-api': kuboApi, 'cors-origin': corsOrigin, origin, proxy } = args;
      const flags = { port: wanted, 'kubo-api': kuboApi, 'cors-origin': corsOrigin, origin, proxy, backends: file };
      const ready = await startDetached(context, flags);
      for (const sentence of ready.recovered) context.output.warn(sentence);
      await printReady(context, { ...ready, front, keyFile, stop: 'stop it with: sealpin stop' });
      return;
    }
    // Miniflare is 6 MB of source: V8's compiled code of one start is kept for the next.
    enableCompileCache(cache);
    const { startService } = await import('../local/service.ts');
    const log = heldLog(context);
    const service = await startService({
      dataDir: context.dataDir,
      port,
      kubo,
      front,
      backends,
      settings,
      origins,
      backupDays,
      log: log.line,
    }).catch((error: unknown) => {
      log.release();
      throw error;
    });
    await printReady(context, { ...service, front, keyFile, stop: 'Ctrl-C stops it; continue in another terminal' });
    log.release();
    // Where it cannot stop, `stopped` says so, too.
    const onSignal = (): void => void service.stop().catch(() => undefined);
    context.signal.addEventListener('abort', onSignal, { once: true });
    if (context.signal.aborted) onSignal();
    await service.stopped;
    context.output.note('stopped');
  },
});

/** @returns whether this version goes on with what was put back */
async function goBack(name: string, context: Context): Promise<boolean> {
  const { rollBack } = await import('../local/upgrade/copies.ts');
  const { output } = context;
  const { version, kept } = await rollBack(context, name);
  output.note(`the data directory is as in ${name}; the state until now is kept as ${kept}`);
  if (version === packageJson.version) return true;
  output.note(`start it with ${version === undefined ? 'the version that it is of' : `sealpin ${version}`}`);
  await output.result({ rollback: name, kept, version }, []);
  return false;
}

function parsePort(text: string | undefined): number {
  const port = text === undefined ? defaultPort : Number(text);
  if (!/^[0-9]{1,5}$/.test(text ?? '0') || port > 65_535)
    throw new SealpinError('usage', `--port ${text} is not a port`, { hint: 'use a number from 0 to 65535' });
  return port;
}

/** Flags that say what kind of service it is. */
const kindFlags = ['port', 'kubo-api', 'origin', 'proxy', 'backends'] as const;

/**
 * Refuses a second start, and names the flags that were not applied. One that ends is waited for.
 */
async function refuseSecond(context: Context, args: Readonly<Record<(typeof kindFlags)[number], string | undefined>>) {
  const run = await runningService(context);
  if (run === null) return;
  const flags = kindFlags.filter((name) => args[name] !== undefined).map((name) => `--${name}`);
  const rest = flags.length === 0 ? '' : `; ${flags.join(' and ')} ${flags.length === 1 ? 'was' : 'were'} not applied`;
  throw new SealpinError('already_running', `the local service is already running at ${run.url}${rest}`, {
    hint: flags.length === 0 ? 'see: sealpin status' : 'stop it first with: sealpin stop',
  });
}

/** A list of backends has some hundred bytes each. */
const maxBackendsBytes = 64 * 1024;

async function readBackends(path: string, context: Context): Promise<Backends> {
  const what = 'a list of backends';
  const bytes = await readSmall(path, { limitBytes: maxBackendsBytes, what, environment: context });
  return parseBackends(new TextDecoder().decode(bytes), visible(path), context.env);
}

/** Parses `--origin` and `--proxy`. @throws usage */
function parseFront({ origin, proxy }: { origin: string | undefined; proxy: string | undefined }) {
  if (origin === undefined || origin === 'none') {
    if (proxy === undefined) return undefined;
    throw new SealpinError('usage', '--proxy needs --origin', {
      hint: 'say at which address others reach the service',
    });
  }
  if (!parseOrigin(origin, '--origin').startsWith('https:'))
    throw new SealpinError('usage', `--origin ${origin} is not an https: address`, {
      hint: 'let a proxy such as Caddy or nginx terminate TLS: see docs/self-hosting.md',
    });
  return { origin, proxies: parseProxies(proxy) };
}

/** An origin, as a browser sends it in `Origin` (RFC 6454 section 6.2). */
function parseOrigin(text: string, flag: string): string {
  const url = URL.parse(text);
  if (url === null || !['http:', 'https:'].includes(url.protocol) || url.origin !== text) {
    throw new SealpinError('usage', `${flag} ${text} is not an origin`, {
      hint:
        'an origin is scheme, host and port, such as ' +
        (flag === '--origin' ? 'https://files.example.com' : 'http://localhost:3000'),
    });
  }
  return text;
}
