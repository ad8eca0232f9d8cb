/**
 * The Kubo that `sealpin start --kubo-api` adds to the local service: where it is, whether it
 * responds, and whether it is the one that holds the files of this data directory. Its RPC:
 * https://docs.ipfs.tech/reference/kubo/rpc/.
 */
import { SealpinError, isSealpinError } from '../../../shared/errors.ts';
import { type HttpResponse, readText, sendRequest } from '../../io/http.ts';
import { jsonIn } from '../../io/json-text.ts';
import { visible } from '../../terminal/output.ts';
import { countText } from '../../terminal/size.ts';
import type { Timeouts } from '../../timeouts.ts';
import type { OtherBackends, StoredCounts } from '../control.ts';
import { isLoopback } from '../../../shared/loopback.ts';
import { readState, localPaths, writeState } from '../state.ts';

/** The IDs of the Kubo and of the embedded node, in stored rows and in `BACKENDS`. */
export const kuboId = 'kubo';
export const embeddedId = 'local';

/**
 * Kubo that the user of `start` asks for: `url` without credentials, without `/api/v0` and without
 * a final slash; `none`; or undefined, for the one that the data directory remembers. `token` is
 * its bearer token (API.Authorizations of its config).
 */
export type KuboWish = {
  readonly url?: string | undefined;
  readonly none?: boolean;
  readonly token?: string | undefined;
};

/** Report of a Kubo. `peers`: how many it is connected to; undefined when it does not say. */
type KuboReport = { readonly version: string; readonly peerId: string; readonly peers?: number | undefined };

/** A Kubo that responded. */
export type Kubo = KuboReport & { readonly url: string; readonly token?: string | undefined };

/** Kubo that `start` uses, and what is stored in one that it does not use. */
export type KuboChoice = Pick<OtherBackends, 'left'> & { readonly kubo?: Kubo };

/** Its responses have a few hundred bytes. */
const timeouts: Timeouts = { stallMs: 5_000, bytes: 1, responseMs: 5_000 };

/** A node with very many peers lists some 200 bytes for each. */
const maxPeersBytes = 8 * 1024 * 1024;

/**
 * The value of `--kubo-api` and of SEALPIN_KUBO_TOKEN.
 * @param text an http: or https: URL, `none`, or undefined
 * @throws usage; without the token and the credentials in the URL
 */
export function parseKuboWish(text: string | undefined, token: string | undefined): KuboWish {
  const given = token === '' ? undefined : token;
  if (given !== undefined && !/^[\x20-\x7e]+$/.test(given))
    throw misuse('SEALPIN_KUBO_TOKEN is not a bearer token: it has characters other than printable ASCII');
  if (text === 'none') return { none: true };
  if (text === undefined) return { token: given };
  const url = URL.parse(text);
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    throw misuse('--kubo-api is not a URL', "give Kubo's RPC address, such as http://127.0.0.1:5001, or none");
  if (url.username !== '' || url.password !== '')
    throw misuse('--kubo-api contains a user or a password', 'put the bearer token in SEALPIN_KUBO_TOKEN');
  if (url.search !== '' || url.hash !== '')
    throw misuse('--kubo-api contains a query or a fragment', 'give the address alone');
  const path = url.pathname.replace(/\/$/, '').replace(/\/api\/v0$/, '');
  const wish = { url: url.origin + path.replace(/\/$/, ''), token: given };
  refuseClearToken(wish.url, given);
  return wish;
}

/** A token must not cross a network unencrypted. */
function refuseClearToken(address: string, token: string | undefined): void {
  const url = new URL(address);
  if (token === undefined || url.protocol === 'https:' || isLoopback(url)) return;
  const detail = `SEALPIN_KUBO_TOKEN would be sent to ${url.host} unencrypted`;
  throw misuse(detail, 'use https:, or an SSH tunnel to 127.0.0.1');
}

function misuse(detail: string, hint?: string): SealpinError {
  return new SealpinError('usage', detail, { hint });
}

/**
 * Asks a Kubo for its version, its peer ID and how many peers it has.
 * @throws service_unreachable when nothing responds there, config_invalid when it refuses the token
 * or is not a Kubo
 */
export async function askKubo(
  { url, token }: Pick<Kubo, 'url' | 'token'>,
  signal: AbortSignal = new AbortController().signal,
): Promise<KuboReport> {
  const ask = async (command: string): Promise<HttpResponse> => {
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
    try {
      return await sendRequest(new URL(`${url}/api/v0/${command}`), { method: 'POST', headers, signal, timeouts });
    } catch (error) {
      if (!isSealpinError(error, 'service_unreachable')) throw error;
      const { host } = new URL(url);
      const why = error.message.startsWith(`${host} `) ? error.message.slice(host.length) : `: ${error.message}`;
      throw new SealpinError('service_unreachable', `the Kubo at ${url}${why}`, {
        hint: 'is its daemon running? Start it, or go without it: --kubo-api none',
        cause: error,
      });
    }
  };
  const field = async (command: string, name: string): Promise<string> => {
    const response = await ask(command);
    const text = await readText(response).catch(() => '');
    if (response.status === 401 || response.status === 403) throw refused(url, command, response.status, token);
    const value = response.status === 200 ? parseObject(text)?.[name] : undefined;
    if (typeof value === 'string' && /^[\x21-\x7e]{1,128}$/.test(value)) return value;
    throw new SealpinError('config_invalid', `${url} is not the RPC address of a Kubo (status ${response.status})`, {
      hint: 'give the API address from the config of Kubo, port 5001 by default; the gateway has another one',
    });
  };
  const version = await field('version', 'Version');
  const peerId = await field('id', 'ID');
  const peers = await ask('swarm/peers').then(countPeers, () => undefined);
  signal.throwIfAborted();
  return { version, peerId, peers };
}

function refused(url: string, command: string, status: number, token: string | undefined): SealpinError {
  return new SealpinError('config_invalid', `the Kubo at ${url} refuses the command ${command} (status ${status})`, {
    hint:
      token === undefined
        ? 'set SEALPIN_KUBO_TOKEN to a token from API.Authorizations in its config'
        : 'SEALPIN_KUBO_TOKEN must be a token from API.Authorizations in its config, without ' +
          '"bearer:", that may use version and id',
  });
}

/** The number of peers; undefined when the token does not allow this command. */
async function countPeers(response: HttpResponse): Promise<number | undefined> {
  const text = await readText(response, maxPeersBytes).catch(() => '');
  const value = parseObject(text);
  // The response of a daemon that was started with --offline.
  if (response.status === 500 && String(value?.['Message']).includes('online mode')) return 0;
  if (response.status !== 200 || value === undefined) return undefined;
  const { Peers: peers = null } = value;
  if (peers === null) return 0;
  return Array.isArray(peers) ? peers.length : undefined;
}

function parseObject(text: string): Record<string, unknown> | undefined {
  const value = jsonIn(text);
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
}

/**
 * The Kubo for a start of the service: the requested one, else the last one.
 * @throws config_invalid when the Kubo is not the one that holds files of this data directory;
 * usage; the codes of `askKubo`
 */
export async function chooseKubo(dataDir: string, wish: KuboWish, signal?: AbortSignal): Promise<KuboChoice> {
  const known = await readState(dataDir, 'kubo');
  const url = wish.url ?? (known?.inUse === true && wish.none !== true ? known.url : undefined);
  const countStored = async (): Promise<StoredCounts> => {
    // Loads SQLite, about which some versions of Node warn
    const { countStoredAt } = await import('../stored-counts.ts');
    return countStoredAt(localPaths(dataDir).state, kuboId);
  };
  if (url === undefined) {
    if (known === undefined) return {};
    const left = await countStored();
    return left.files + left.deletions === 0 ? {} : { left: { ...left, url: known.url } };
  }
  refuseClearToken(url, wish.token);
  const report = await askKubo({ url, token: wish.token }, signal);
  if (known !== undefined && known.peerId !== report.peerId) {
    const { files, deletions } = await countStored();
    if (files + deletions > 0)
      throw new SealpinError(
        'config_invalid',
        `the Kubo at ${url} is not the one with your files: its peer ID is ${report.peerId}, and ` +
          `${countsText({ files, deletions })} of this data directory ${files + deletions === 1 ? 'is' : 'are'} at ` +
          `the Kubo ${known.peerId}, last seen at ${known.url}`,
        { hint: 'give the address of that Kubo, or use another data directory (--data-dir) with this one' },
      );
  }
  return { kubo: { url, token: wish.token, ...report } };
}

/**
 * Records the choice before a byte is stored there. A Kubo that is no longer used stays recorded,
 * with its files.
 */
export async function rememberKubo(dataDir: string, { kubo }: KuboChoice): Promise<void> {
  const known = await readState(dataDir, 'kubo');
  if (kubo !== undefined) await writeState(dataDir, 'kubo', { v: 1, url: kubo.url, peerId: kubo.peerId, inUse: true });
  else if (known?.inUse === true) await writeState(dataDir, 'kubo', { ...known, inUse: false });
}

/** The other backends, as `chooseKubo` has just found them. */
export function otherBackendsOf({ kubo, left }: KuboChoice): OtherBackends {
  if (kubo === undefined) return left === undefined ? {} : { left };
  const { token: _, ...report } = kubo;
  return { kubo: { status: 'ok', ...report } };
}

/** The other backends of a running service; its Kubo is asked again. */
export async function askOtherBackends({ kubo, left }: KuboChoice): Promise<OtherBackends> {
  if (kubo === undefined) return otherBackendsOf({ ...(left && { left }) });
  const { url, token, peerId } = kubo;
  const failing = (reason: string): OtherBackends => ({ kubo: { status: 'failing', url, peerId, reason } });
  try {
    const report = await askKubo({ url, token });
    if (report.peerId !== peerId) return failing(`another Kubo is running there: its peer ID is ${report.peerId}`);
    return { kubo: { status: 'ok', url, ...report } };
  } catch (error) {
    return failing(isSealpinError(error) ? error.message : visible(String(error)));
  }
}

/** `3 files and 1 deletion`. */
function countsText({ files, deletions }: StoredCounts): string {
  const counts = [files > 0 ? countText(files, 'file') : [], deletions > 0 ? countText(deletions, 'deletion') : []];
  return counts.flat().join(' and ');
}

/** A warning about files and deletions in a Kubo that is not in use. */
export function describeLeft({ url, files, deletions }: NonNullable<KuboChoice['left']>): string {
  const unread = files === 0 ? '' : ' and cannot be read';
  const verb = files + deletions === 1 ? 'waits' : 'wait';
  return (
    `${countsText({ files, deletions })} of this data directory ${verb} for the Kubo at ${url}${unread}: it ` +
    `is not in use; to use it again, start with --kubo-api ${url}`
  );
}

/** The number of peers of a Kubo, as text; undefined means that it does not say. */
export function describePeers(peers: number | undefined): string {
  if (peers === undefined) return 'number of peers unknown';
  return peers === 0 ? 'no peers at the moment' : countText(peers, 'peer');
}
