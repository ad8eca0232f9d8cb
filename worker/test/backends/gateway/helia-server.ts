/**
 * A real `@helia/pinning-service-api-server`, the reference server of the Pinning Service API in
 * JavaScript, on loopback.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const folder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'sealpin/pinning-service-api-server');

/** Tells whether `.ci/helia` has installed it; the file is written when that is complete. */
export const isHeliaServerInstalled = existsSync(join(folder, 'installed'));

export const noHeliaServer = '@helia/pinning-service-api-server is not installed: .ci/helia installs it';

/**
 * Runs in a process of its own, and prints its address. Of Helia's defaults, all that reaches
 * beyond loopback is left out: bootstrap and discovery of peers, routers, gateways. There is a
 * router that knows nobody: with none, a pin fails at its end. WebRTC is left out because its
 * native part is downloaded by an install script.
 */
const program = `
  import { registerHooks } from 'node:module';
  const webrtc = 'data:text/javascript,export const webRTC = undefined, webRTCDirect = undefined;';
  registerHooks({
    resolve: (name, context, next) =>
      name === '@libp2p/webrtc' ? { url: webrtc, shortCircuit: true } : next(name, context),
  });
  const { createLibp2p } = await import('libp2p');
  const { noise } = await import('@chainsafe/libp2p-noise');
  const { yamux } = await import('@chainsafe/libp2p-yamux');
  const { identify } = await import('@libp2p/identify');
  const { tcp } = await import('@libp2p/tcp');
  const { bitswap } = await import('@helia/block-brokers');
  const { createHelia } = await import('helia');
  const { createPinningServiceAPIServer } = await import('@helia/pinning-service-api-server');
  const libp2p = await createLibp2p({
    addresses: { listen: ['/ip4/127.0.0.1/tcp/0'] },
    transports: [tcp()],
    connectionEncrypters: [noise()],
    streamMuxers: [yamux()],
    services: { identify: identify() },
  });
  const nobody = { async provide() {}, async *findProviders() {} };
  const helia = await createHelia({ libp2p, blockBrokers: [bitswap()], routers: [nobody] });
  const server = await createPinningServiceAPIServer(helia, {
    validateAccessToken(token) {
      if (token !== process.env.TOKEN) throw new Error('another token');
      return { id: 'tests' };
    },
    listen: { host: '127.0.0.1', port: 0 },
  });
  console.log('http://127.0.0.1:' + server.server.address().port);
`;

export type HeliaServer = { url: string; token: string; close(): Promise<void> };

/** Starts one that has no pins and knows no peers. */
export async function startHeliaServer(): Promise<HeliaServer> {
  const token = 'token-of-the-tests';
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    cwd: folder,
    env: { ...process.env, TOKEN: token },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  const lines = createInterface(child.stdout);
  const [url] = (await Promise.race([
    once(lines, 'line'),
    ended.then(() => Promise.reject(new Error('it ended before it listened'))),
  ])) as [string];
  return {
    url,
    token,
    async close() {
      child.kill();
      await ended;
    },
  };
}
