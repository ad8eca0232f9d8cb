/** wrangler, as a process of its own that never asks: its input is what it is given here. */
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { stripVTControlCharacters } from 'node:util';
import { SealpinError } from '../shared/errors.ts';

/** Runs wrangler. @param input its standard input: secrets go here, never into an argument */
export type Wrangler = (
  args: readonly string[],
  input?: string,
) => Promise<{ ok: boolean; stdout: string; stderr: string }>;

/** The secret without which a service restores nothing. */
export const restoreSecret = 'RESTORE_TOKEN';

/** Keeps Node from opening a debugger to all users for SIGUSR1. wrangler passes it on. */
const noDebugger = '--disable-sigusr1';
const program = join(dirname(createRequire(import.meta.url).resolve('wrangler/package.json')), 'bin', 'wrangler.js');

/**
 * The wrangler of this checkout.
 * @param config the path of the configuration; wrangler runs in its folder
 * @param env the environment, with `CLOUDFLARE_API_TOKEN` where there is no `wrangler login`
 * @param signal ends it, and each one after it, with its reason; what it has begun, such as a
 * deployment, may be completed where the signal came to this process alone
 */
export function wranglerWith(config: string, env: NodeJS.ProcessEnv, signal?: AbortSignal): Wrangler {
  return async (args, input = '') => {
    signal?.throwIfAborted();
    const argv = [noDebugger, program, ...args, '--config', config];
    const child = spawn(process.execPath, argv, { cwd: dirname(config), env, stdio: 'pipe', signal });
    // It was ended.
    child.on('error', () => undefined);
    // It may end without reading.
    child.stdin.on('error', () => undefined);
    child.stdin.end(input);
    const [stdout, stderr, code] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      new Promise<number | null>((resolve) => child.once('close', resolve)),
    ]);
    signal?.throwIfAborted();
    return { ok: code === 0, stdout, stderr };
  };
}

/** The accounts that the login, or the API token, may use. @throws unauthorized without one */
export async function accountsOf(wrangler: Wrangler): Promise<{ id: string; name: string }[]> {
  const { stdout, stderr } = await wrangler(['whoami', '--json']);
  const who = printedJson(stdout) as WhoAmI | undefined;
  if (who === undefined)
    throw new SealpinError('unauthorized', `wrangler whoami failed: ${reasonOf(stderr)}`, { hint });
  if (!who.loggedIn) throw new SealpinError('unauthorized', 'wrangler is not logged in', { hint });
  return who.accounts ?? [];
}

type WhoAmI = { loggedIn: boolean; accounts?: { id: string; name: string }[] };

const hint = 'run npx wrangler login, or set CLOUDFLARE_API_TOKEN to a valid token';

/** The names of a Worker's secrets; undefined without a Worker. @throws service_unreachable */
export async function secretNames(wrangler: Wrangler): Promise<string[] | undefined> {
  const { ok, stdout, stderr } = await wrangler(['secret', 'list', '--format', 'json']);
  if (ok) return ((printedJson(stdout) ?? []) as { name: string }[]).map(({ name }) => name);
  if (/Worker "[^"]*" not found/.test(stripVTControlCharacters(stderr))) return undefined;
  throw new SealpinError('service_unreachable', `wrangler secret list failed: ${reasonOf(stderr)}`);
}

/** The KV namespaces of the account. @throws service_unreachable */
export async function kvNamespaces(wrangler: Wrangler): Promise<{ id: string; title: string }[]> {
  const { ok, stdout, stderr } = await wrangler(['kv', 'namespace', 'list']);
  if (!ok) throw new SealpinError('service_unreachable', `wrangler kv namespace list failed: ${reasonOf(stderr)}`);
  return (printedJson(stdout) ?? []) as { id: string; title: string }[];
}

/** The JSON in what wrangler printed, after lines of its own. */
function printedJson(stdout: string): unknown {
  const start = stdout.search(/^[[{]/m);
  if (start < 0) return undefined;
  try {
    return JSON.parse(stdout.slice(start)) as unknown;
  } catch {
    return undefined;
  }
}

/** Extracts the reason of a failure, in one line, without the path of wrangler's log. */
export function reasonOf(stderr: string): string {
  const lines = stripVTControlCharacters(stderr)
    .split('\n')
    .map((line) => line.replace('✘ [ERROR]', '').trim());
  const telling = lines.filter((line) => line !== '' && !/Logs were written|If you think this is a bug/.test(line));
  return telling.slice(0, 3).join(' ') || 'it says nothing';
}
