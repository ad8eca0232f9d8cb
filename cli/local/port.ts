/** Finds a port to listen on. */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { errnoOf } from '../errno.ts';

/** A port on 127.0.0.1 that nothing listens on. @param wanted 0: any @throws port_in_use */
export async function freePort(wanted: number): Promise<number> {
  const server = createServer();
  try {
    return await listenOn(server, wanted);
  } finally {
    server.close();
  }
}

/** Has a server listen. @returns the port @throws port_in_use */
export async function listenOn(server: Server, wanted: number, host = '127.0.0.1'): Promise<number> {
  try {
    await once(server.listen(wanted, host), 'listening');
    server.on('error', () => undefined); // of single connections, whose clients see it
    return (server.address() as AddressInfo).port;
  } catch (cause) {
    const code = errnoOf(cause);
    if (code !== 'EADDRINUSE' && code !== 'EACCES') throw cause;
    const why = code === 'EACCES' ? 'may not be used by this user' : 'is in use by another program';
    throw new SealpinError('port_in_use', `port ${wanted} ${why}`, { cause });
  }
}

/** A killed process keeps its port until the last of its threads has ended. */
const releaseMs = 2_000;

/** Runs `listen`, and repeats it for up to 2 s while the port is in use. @throws port_in_use */
export async function untilReleased<T>(listen: () => Promise<T>): Promise<T> {
  for (const end = performance.now() + releaseMs; ; await sleep(50)) {
    try {
      return await listen();
    } catch (error) {
      if (!isSealpinError(error, 'port_in_use') || performance.now() > end) throw error;
    }
  }
}

/** Number of times that another program may take the port first before we give up. */
const portAttempts = 5;

/**
 * Runs `listen` with the wanted port, or with a free one. Another program, or another service of
 * ours, can take a free port before it is listened on: then the next one is tried.
 * @param wanted 0: any
 * @throws port_in_use
 */
export async function onFreePort<T>(wanted: number, listen: (port: number) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await listen(wanted === 0 ? await freePort(0) : wanted);
    } catch (error) {
      if (!isSealpinError(error, 'port_in_use') || wanted !== 0 || attempt === portAttempts) throw error;
    }
  }
}
