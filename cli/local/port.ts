/** Finds a port to listen on. */
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { errnoOf } from '../errno.ts';

/** A port on 127.0.0.1 that nothing listens on. @param wanted 0: any @throws port_in_use */
export async function freePort(wanted: number): Promise<number> {
  const server = createServer();
  try {
    return await new Promise<number>((resolve, reject) => {
      server.once('error', reject);
      server.listen(wanted, '127.0.0.1', () => {
        resolve((server.address() as { port: number }).port);
      });
    });
  } catch (error) {
    const code = errnoOf(error);
    if (code === 'EADDRINUSE') throw new SealpinError('port_in_use', `port ${wanted} is in use by another program`);
    if (code === 'EACCES') throw new SealpinError('port_in_use', `port ${wanted} may not be used by this user`);
    throw error;
  } finally {
    server.close();
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
