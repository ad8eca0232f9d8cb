/** A public service of `sealpin start --origin`, called as its proxy calls it. */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { request, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { buffer, text } from 'node:stream/consumers';
import { localPaths } from '../../local/state.ts';
import { startHere, type RunningHere } from '../local/harness.ts';

export const origin = 'https://files.example.com';
export const host = 'files.example.com';

export type PublicService = RunningHere & { readonly adminToken: string };

/** Starts a public service in this process. */
export async function startPublic(o: Parameters<typeof startHere>[0] = {}): Promise<PublicService> {
  const args = o.args?.some((arg) => arg.startsWith('--origin')) === true ? [] : [`--origin=${origin}`];
  const service = await startHere({ ...o, args: [...args, ...(o.args ?? [])] });
  return Object.assign(service, { adminToken: await adminTokenOf(service.dataDir) });
}

/** The operator's token of a data directory. */
export async function adminTokenOf(dataDir: string): Promise<string> {
  const { adminToken } = JSON.parse(await readFile(localPaths(dataDir).secrets, 'utf8')) as { adminToken: string };
  return adminToken;
}

/** A response with its body, also as text. */
export type Answer = Pick<IncomingMessage, 'headers'> & {
  readonly status: number | undefined;
  readonly body: string;
  readonly bytes: Uint8Array;
};

/** Sends a request to the listener, as the proxy does. */
export async function ask(
  { port }: Pick<PublicService, 'port'>,
  path: string,
  o: { method?: string; headers?: Record<string, string>; body?: Uint8Array | string } = {},
): Promise<Answer> {
  const sent = request({
    host: '127.0.0.1',
    port,
    path,
    method: o.method ?? 'GET',
    headers: { host, ...o.headers },
    agent: false,
  });
  sent.end(o.body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const bytes = await buffer(response);
  return { status: response.statusCode, headers: response.headers, body: bytes.toString(), bytes };
}

/** Sends bytes to the listener, and gives all that comes back until it closes the connection. */
export async function sendRaw(port: number, bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  const answer = text(socket);
  socket.write(bytes, 'latin1');
  return await answer;
}

/** Makes an account as the operator, who is at an address. @returns its API key */
export async function newAccount(service: PublicService, address = '127.0.0.1'): Promise<string> {
  const authorization = `Bearer ${service.adminToken}`;
  const { status, body } = await ask(service, '/v1/operator/accounts', {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/json', 'x-forwarded-for': address },
    body: JSON.stringify({ label: 'ann' }),
  });
  if (status !== 201) throw new Error(`no account was made: ${status} ${body}`);
  return (JSON.parse(body) as { apiKey: string }).apiKey;
}

/** Headers of a request that stores a file. */
export function storing(apiKey: string): Record<string, string> {
  return {
    authorization: `Bearer ${apiKey}`,
    'content-type': 'application/octet-stream',
    'content-disposition': 'attachment; filename=a.bin',
  };
}
