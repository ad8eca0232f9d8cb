/**
 * The Kubo that `sealpin start --kubo-api` adds to the local service: where it is, whether it answers, and whether it is
 * the one that holds the files of this data directory. Its RPC: https://docs.ipfs.tech/reference/kubo/rpc/.
 */
import { SealpinError, isSealpinError } from '../../shared/errors.ts';
import { type HttpResponse, isLoopback, readText, send } from '../remote/http.ts';
import { visible } from '../terminal/output.ts';
import type { Timeouts } from '../remote/timeouts.ts';
import type { Homes, Kept } from './control.ts';
import { loadKubo, localPaths, saveKubo } from './state.ts';

/** The id of the Kubo in stored rows and in `PINNING_SERVICES`; the embedded node is `local`. */
export const kuboId = 'kubo';

/**
 * Which Kubo `start` is asked to use: `url` without credentials, without `/api/v0` and without a final slash; `none`; or
 * undefined, for the one that the data directory remembers. `token` is its bearer token (API.Authorizations of its config).
 */
export type KuboWish = {
  readonly url?: string | undefined;
  readonly none?: boolean;
  readonly token?: string | undefined;
};

/** What a Kubo says of itself. `peers`: how many it is connected to; undefined when it does not say. */
export type KuboAnswer = { readonly version: string; readonly peerId: string; readonly peers?: number };

/** A Kubo that answered. */
export type Kubo = KuboAnswer & { readonly url: string; readonly token?: string | undefined };

/** What `start` uses, and what lies in a Kubo that it does not use. */
export type KuboChoice = Pick<Homes, 'left'> & { readonly kubo?: Kubo };

/** It is asked for a few hundred bytes. */
const timeouts: Timeouts = { stallMs: 5_000, bytes: 1, answerMs: 5_000 };

/** A node with very many peers lists some 200 bytes for each. */
const maxPeersBytes = 8 * 1024 * 1024;

/**
 * The value of `--kubo-api` and of SEALPIN_KUBO_TOKEN.
 *
 * @param text an http: or https: URL, `none`, or undefined
 * @throws usage; neither the token nor credentials in the URL are repeated
 */
export function parseKuboWish(text: string | undefined, token: string | undefined): KuboWish {
  const given = token === '' ? undefined : token;
  if (given !== undefined && !/^[\x20-\x7e]+$/.test(given))
    throw new SealpinError('usage', 'SEALPIN_KUBO_TOKEN has characters that a bearer token cannot have');
  if (text === 'none') return { none: true };
  if (text === undefined) return { token: given };
  const url = URL.parse(text);
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    throw new SealpinError('usage', '--kubo-api is not a URL', {
      hint: "name Kubo's RPC address, such as http://127.0.0.1:5001, or none",
    });
  if (url.username !== '' || url.password !== '')
    throw new SealpinError('usage', '--kubo-api has a user or a password in it', {
      hint: 'put the bearer token into SEALPIN_KUBO_TOKEN',
    });
  if (url.search !== '' || url.hash !== '')
    throw new SealpinError('usage', '--kubo-api has a query or a fragment', { hint: 'name the address alone' });
  const path = url.pathname.replace(/\/$/, '').replace(/\/api\/v0$/, '');
  const wish = { url: url.origin + path.replace(/\/$/, ''), token: given };
  refuseClearToken(wish.url, given);
  return wish;
}

/** A token must not cross a network in the clear. */
function refuseClearToken(address: string, token: string | undefined): void {
  const url = new URL(address);
  if (token === undefined || url.protocol === 'https:' || isLoopback(url)) return;
  throw new SealpinError('usage', `SEALPIN_KUBO_TOKEN would go to ${url.host} in the clear`, {
    hint: 'use https:, or an SSH tunnel to 127.0.0.1',
  });
}

/**
 * Asks a Kubo for its version, its peer ID and how many peers it has.
 *
 * @throws service_unreachable when nothing answers there, config_invalid when it refuses the token or is not a Kubo
 */
export async function askKubo(
  { url, token }: Pick<Kubo, 'url' | 'token'>,
  signal: AbortSignal = new AbortController().signal,
): Promise<KuboAnswer> {
  const ask = async (command: string): Promise<HttpResponse> => {
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
    try {
      return await send(new URL(`${url}/api/v0/${command}`), { method: 'POST', headers, signal, timeouts });
    } catch (error) {
      if (!isSealpinError(error, 'service_unreachable')) throw error;
      const { host } = new URL(url);
      const why = error.message.startsWith(`${host} `) ? error.message.slice(host.length) : `: ${error.message}`;
      throw new SealpinError('service_unreachable', `the Kubo at ${url}${why}`, {
        hint: 'is its daemon running? Start it, or leave it out with --kubo-api none',
        cause: error,
      });
    }
  };
  const field = async (command: string, name: string): Promise<string> => {
    const answer = await ask(command);
    const text = await readText(answer).catch(() => '');
    if (answer.status === 401 || answer.status === 403) throw refused(url, command, answer.status, token);
    const value = answer.status === 200 ? parseObject(text)?.[name] : undefined;
    if (typeof value === 'string' && /^[\x21-\x7e]{1,128}$/.test(value)) return value;
    throw new SealpinError('config_invalid', `what answers at ${url} is not Kubo's RPC (status ${answer.status})`, {
      hint: 'name the address of API in the config of Kubo, port 5001 by default; the gateway is another one',
    });
  };
  const version = await field('version', 'Version');
  const peerId = await field('id', 'ID');
  const peers = await ask('swarm/peers').then(countPeers, () => undefined);
  signal.throwIfAborted();
  return { version, peerId, ...(peers === undefined ? {} : { peers }) };
}

function refused(url: string, command: string, status: number, token: string | undefined): SealpinError {
  return new SealpinError('config_invalid', `the Kubo at ${url} refuses ${command} (status ${status})`, {
    hint:
      token === undefined
        ? 'set SEALPIN_KUBO_TOKEN to a token of API.Authorizations in the config of Kubo'
        : 'SEALPIN_KUBO_TOKEN has to be a token of API.Authorizations in the config of Kubo, without "bearer:", that may use version and id',
  });
}

/** A token need not allow this command, and then nothing is known. */
async function countPeers(answer: HttpResponse): Promise<number | undefined> {
  const text = await readText(answer, maxPeersBytes).catch(() => '');
  const value = parseObject(text);
  // The answer of a daemon that was started with --offline.
  if (answer.status === 500 && String(value?.['Message']).includes('online mode')) return 0;
  if (answer.status !== 200 || value === undefined) return undefined;
  const { Peers: peers = null } = value;
  if (peers === null) return 0;
  return Array.isArray(peers) ? peers.length : undefined;
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined; // not JSON: the caller says what that means
  }
}

/**
 * The Kubo for a start of the service: the one that is asked for, else the one that was used last.
 *
 * @throws config_invalid when another Kubo than before answers and this data directory has files in the first one; usage;
 *   the codes of `askKubo`
 */
export async function chooseKubo(dataDir: string, wish: KuboWish, signal?: AbortSignal): Promise<KuboChoice> {
  const known = await loadKubo(dataDir);
  const url = wish.url ?? (known?.inUse === true && wish.none !== true ? known.url : undefined);
  const kept = async (): Promise<Kept> => {
    const { keptAt } = await import('./stored-counts.ts'); // loads SQLite, of which some versions of Node warn
    return keptAt(localPaths(dataDir).state, kuboId);
  };
  if (url === undefined) {
    if (known === undefined) return {};
    const left = await kept();
    return left.files + left.deletions === 0 ? {} : { left: { ...left, url: known.url } };
  }
  refuseClearToken(url, wish.token);
  const answer = await askKubo({ url, token: wish.token }, signal);
  if (known !== undefined && known.peerId !== answer.peerId) {
    const { files, deletions } = await kept();
    if (files + deletions > 0) {
      throw new SealpinError(
        'config_invalid',
        `another Kubo answers at ${url}: its peer ID is ${answer.peerId}, and ${what({ files, deletions })} of this data directory ${files + deletions === 1 ? 'is' : 'are'} at the Kubo ${known.peerId}, last seen at ${known.url}`,
        { hint: 'name the address of that Kubo, or use another data directory (--data-dir) with this one' },
      );
    }
  }
  return { kubo: { url, token: wish.token, ...answer } };
}

/** Remembers what was chosen, before a byte is stored there. Files in a Kubo that is left stay known to be there. */
export async function rememberKubo(dataDir: string, { kubo }: KuboChoice): Promise<void> {
  const known = await loadKubo(dataDir);
  if (kubo === undefined && known?.inUse !== true) return;
  const { url, peerId } = kubo ?? known!;
  await saveKubo(dataDir, { v: 1, url, peerId, inUse: kubo !== undefined });
}

/** What a start has just found out. */
export function homesOf({ kubo, left }: KuboChoice): Homes {
  if (kubo === undefined) return left === undefined ? {} : { left };
  const { token: _, ...told } = kubo;
  return { kubo: { status: 'ok', ...told } };
}

/** Asks the Kubo of a service that runs how it is doing. */
export async function askHomes({ kubo, left }: KuboChoice): Promise<Homes> {
  if (kubo === undefined) return homesOf({ ...(left && { left }) });
  const { url, token, peerId } = kubo;
  const failing = (reason: string): Homes => ({ kubo: { status: 'failing', url, peerId, reason } });
  try {
    const answer = await askKubo({ url, token });
    if (answer.peerId !== peerId) return failing(`another Kubo answers there: its peer ID is ${answer.peerId}`);
    return { kubo: { status: 'ok', url, ...answer } };
  } catch (error) {
    return failing(isSealpinError(error) ? error.message : visible(String(error)));
  }
}

/** `3 files and 1 deletion`. */
function what({ files, deletions }: Kept): string {
  const count = (n: number, word: string) => (n === 0 ? [] : [`${n} ${word}${n === 1 ? '' : 's'}`]);
  return [...count(files, 'file'), ...count(deletions, 'deletion')].join(' and ');
}

/** What a start without a Kubo says of what lies in one. */
export function describeLeft({ url, files, deletions }: NonNullable<KuboChoice['left']>): string {
  const unread = files === 0 ? '' : ' and cannot be read';
  const verb = files + deletions === 1 ? 'waits' : 'wait';
  return `${what({ files, deletions })} of this data directory ${verb} for the Kubo at ${url}${unread}: it is not in use; start with --kubo-api ${url} to use it again`;
}

/** How a Kubo is connected, in words; nothing is assumed where it does not say. */
export function describePeers(peers: number | undefined): string {
  if (peers === undefined) return 'number of peers not known';
  if (peers === 0) return 'no peers at the moment';
  return `${peers} ${peers === 1 ? 'peer' : 'peers'}`;
}
