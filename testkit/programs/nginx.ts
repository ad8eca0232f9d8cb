/** A real nginx on loopback, with the configuration of docs/kubo. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { programPath, startProgram } from './programs.ts';
import { freePort } from '../../cli/local/port.ts';
import { isOpen } from '../loopback-server.ts';

const docsFolder = join(import.meta.dirname, '../../docs');

/**
 * Starts the nginx of docs/kubo without TLS, in front of `upstream`, a URL of 127.0.0.1.
 * @param o.folder of docs/, with another nginx.conf
 * @param o.changes of that file, besides those that loopback needs
 */
export async function startNginx(
  upstream: string,
  o: { folder?: string; changes?: [RegExp, string][] } = {},
): Promise<{ url: string; close(): Promise<void> }> {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-nginx-'));
  const port = await freePort(0);
  const changes: [RegExp, string][] = [
    [/server kubo:5001;/, `server ${new URL(upstream).host};`],
    [/listen 443 ssl;/, `listen 127.0.0.1:${port};`],
    [/ssl_.*\n/g, '\n'],
    [/include .*;/, `include ${join(docsFolder, 'kubo/rpc.conf')};`],
    [/access_log .*;/, 'access_log off;'],
    [/worker_processes auto;/, `worker_processes 1;\ndaemon off;\npid ${dir}/pid;\nerror_log stderr;`],
    [/http \{/, `http {\n${temporary(dir)}`],
    ...(o.changes ?? []),
  ];
  let text = await readFile(join(docsFolder, o.folder ?? 'kubo', 'nginx.conf'), 'utf8');
  for (const [pattern, replacement] of changes) {
    if (text.search(pattern) === -1) throw new Error(`nginx.conf has no ${pattern.source}`);
    text = text.replace(pattern, replacement);
  }
  await writeFile(join(dir, 'nginx.conf'), text);
  const args = ['-p', dir, '-e', 'stderr', '-c', 'nginx.conf'];
  const nginx = await startProgram(programPath('nginx') ?? 'nginx', args, { ready: () => isOpen(port) });
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      await nginx.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** nginx makes these folders at its start, by default in its own. */
function temporary(dir: string): string {
  return ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((of) => `${of}_temp_path ${dir}/${of};`).join('\n');
}
