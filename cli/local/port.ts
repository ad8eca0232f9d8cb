/** Finding a port to listen on. */
import { createServer } from 'node:net';
import { SealpinError } from '../../shared/errors.ts';

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
