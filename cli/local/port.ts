/** Finding a port to listen on. */
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { SealpinError, isSealpinError } from '../../shared/errors.ts';

/**
 * A port on 127.0.0.1 that nothing listens on.
 *
 * @param wanted 0: any
 * @throws port_in_use
 */
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
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE') throw new SealpinError('port_in_use', `port ${wanted} is in use by another program`);
    if (code === 'EACCES') throw new SealpinError('port_in_use', `port ${wanted} may not be used by this user`);
    throw error;
  } finally {
    server.close();
  }
}

/** A process that was killed keeps its port until the last of its threads is gone. */
const releaseMs = 2_000;

/**
 * Runs `listen`, again for up to 2 s while the port is in use.
 *
 * @throws port_in_use
 */
export async function untilReleased<T>(listen: () => Promise<T>): Promise<T> {
  for (const end = performance.now() + releaseMs; ; await sleep(50)) {
    try {
      return await listen();
    } catch (error) {
      if (!isSealpinError(error, 'port_in_use') || performance.now() > end) throw error;
    }
  }
}

/** How often another program may be faster than we are before we give up. */
const attempts = 5;

/**
 * Runs `listen` with a port that is free; with the wanted one only, unless any will do. Between looking and listening
 * another listener, one of our own among them, can take a port: then it is tried with the next.
 *
 * @param wanted 0: any
 * @throws port_in_use
 */
export async function onFreePort<T>(wanted: number, listen: (port: number) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await listen(wanted === 0 ? await freePort(0) : wanted);
    } catch (error) {
      if (!isSealpinError(error, 'port_in_use') || wanted !== 0 || attempt === attempts) throw error;
    }
  }
}
