/** Proxies of docs/self-hosting.md, by its lines, with certificates of an authority of tests. */
import { execFileSync, spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { endWithProcess } from '../../../testkit/end-with-process.ts';
import { isOpen } from '../../../testkit/loopback-server.ts';
import { present } from '../../../testkit/present.ts';
import { installed } from '../../../testkit/programs/programs.ts';

const page = await readFile(join(import.meta.dirname, '../../../docs/self-hosting.md'), 'utf8');
const linesOf = (language: string): string =>
  present(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\``, 'm').exec(page)?.[1]);

/** A certificate for localhost, and the authority that signed it. */
export function certificatesIn(dir: string): { ca: string; cert: string; key: string } {
  const at = (name: string): string => join(dir, name);
  const openssl = (...args: string[]): void => void execFileSync('openssl', args, { stdio: 'ignore' });
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  openssl(
    'req',
    '-x509',
    ...newKey,
    '-subj',
    '/CN=Authority of the tests',
    '-keyout',
    at('ca.key'),
    '-out',
    at('ca.pem'),
  );
  const names = ['-addext', 'subjectAltName=DNS:localhost', '-addext', 'basicConstraints=CA:FALSE'];
  openssl(
    'req',
    '-x509',
    '-CA',
    at('ca.pem'),
    '-CAkey',
    at('ca.key'),
    ...newKey,
    '-subj',
    '/CN=localhost',
    ...names,
    '-keyout',
    at('key.pem'),
    '-out',
    at('cert.pem'),
  );
  return { ca: at('ca.pem'), cert: at('cert.pem'), key: at('key.pem') };
}

type Proxy = { readonly args: string[]; readonly env?: Record<string, string> };
/** `upstream`: host and port of the service. */
type Place = { dir: string; port: string; upstream: string; cert: string; key: string };

/** Changes lines of the page; each must be there. */
export function changed(text: string, changes: readonly [string, string][]): string {
  return changes.reduce((lines, [from, to]) => {
    if (!lines.includes(from)) throw new Error(`the page has no line with ${from}`);
    return lines.replaceAll(from, to);
  }, text);
}

/** Writes the configuration of each proxy, and gives how it is started. */
export const proxies = {
  async caddy({ dir, port, upstream, cert, key }: Place): Promise<Proxy> {
    const file = changed(linesOf('caddyfile'), [
      ['files.example.com {', `https://localhost:${port} {\n\tbind 127.0.0.1\n\ttls ${cert} ${key}`],
      ['127.0.0.1:7420', upstream],
    ]);
    await writeFile(join(dir, 'Caddyfile'), `{\n\tadmin off\n\tauto_https disable_redirects\n}\n${file}`);
    return {
      args: ['run', '--config', join(dir, 'Caddyfile')],
      env: { HOME: dir, XDG_DATA_HOME: dir, XDG_CONFIG_HOME: dir },
    };
  },
  async nginx({ dir, port, upstream, cert, key }: Place): Promise<Proxy> {
    const server = changed(linesOf('nginx'), [
      ['listen 443 ssl;', `listen 127.0.0.1:${port} ssl;`],
      ['/etc/letsencrypt/live/files.example.com/fullchain.pem', cert],
      ['/etc/letsencrypt/live/files.example.com/privkey.pem', key],
      ['127.0.0.1:7420', upstream],
    ]);
    const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
      .map((of) => `${of}_temp_path ${dir}/${of};`)
      .join('\n');
    const http = `http {\naccess_log off;\n${folders}\n${server}}\n`;
    const config = `daemon off;\npid ${dir}/pid;\nerror_log stderr;\nevents {}\n${http}`;
    await writeFile(join(dir, 'nginx.conf'), config);
    return { args: ['-p', dir, '-e', 'stderr', '-c', 'nginx.conf'] };
  },
};

/** Starts a proxy. @returns what ends it */
export async function startProxy(name: keyof typeof proxies, place: Place): Promise<() => Promise<void>> {
  const { args, env } = await proxies[name](place);
  const child = spawn(installed(name), args, { stdio: 'ignore', env: { ...process.env, ...env } });
  endWithProcess(child);
  const ended = new Promise((resolve) => child.once('exit', resolve));
  while (!(await isOpen(Number(place.port)))) {
    if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode}`);
    await sleep(20);
  }
  return async () => {
    child.kill('SIGTERM');
    await ended;
  };
}
