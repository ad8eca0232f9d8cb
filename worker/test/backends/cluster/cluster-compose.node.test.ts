/**
 * The set-up of docs/cluster with the real programs, without the containers: nginx in front of a
 * stub, and the settings of the peer.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { clusterProgram, noCluster } from './real-cluster.ts';
import { startLoopbackServer } from '../../../../testkit/loopback-server.ts';
import { startNginx } from '../../../../testkit/programs/nginx.ts';
import { withProgram } from '../../../../testkit/programs/programs.ts';
import { temporaryDirectory } from '../../../../testkit/temporary-directory.ts';

const folder = join(import.meta.dirname, '../../../../docs/cluster');

withProgram('nginx', { probe: ['-v'] }, () => {
  test('the Kubo of a peer is open to Sealpin’s token and commands only', async () => {
    const asked: string[] = [];
    const upstream = await startLoopbackServer((request, response) => {
      asked.push(request.url ?? '');
      response.end('ok');
    });
    const dir = await temporaryDirectory();
    await writeFile(join(dir, 'token.map'), '"Bearer right" 1;\n');
    const nginx = await startNginx(upstream.url, {
      folder: 'cluster',
      changes: [
        [/include \/etc\/nginx\/token.map;/, `include ${dir}/token.map;`],
        [/server cluster:9094;/, 'server 127.0.0.1:9;'],
        [/listen 9443 ssl;/, `listen unix:${dir}/rest;`],
      ],
    });
    try {
      const ask = async (path: string, token?: string): Promise<number> => {
        const headers = token === undefined ? {} : { Authorization: token };
        return (await fetch(`${nginx.url}${path}`, { method: 'POST', headers })).status;
      };
      expect(await ask('/api/v0/version', 'Bearer right')).toBe(200);
      for (const token of [undefined, 'Bearer wrong', 'Bearer right2', 'right', 'Basic cmlnaHQ='])
        expect(await ask('/api/v0/version', token)).toBe(403);
      expect(await ask('/api/v0/config/show', 'Bearer right')).toBe(404);
      expect(asked).toEqual(['/api/v0/version']);
    } finally {
      await nginx.close();
      await upstream.close();
    }
  });
});

test.skipIf(clusterProgram() === undefined)('the peer takes its settings from the environment', async () => {
  const compose = readFileSync(join(folder, 'compose.yaml'), 'utf8');
  const values: Record<string, string> = {
    CLUSTER_SECRET: 'ab'.repeat(32),
    CLUSTER_PEERNAME: 'one',
    CLUSTER_PASSWORD: 'pw',
  };
  const env: Record<string, string> = { IPFS_CLUSTER_PATH: await temporaryDirectory() };
  for (const [, name = '', value = ''] of compose.matchAll(/^ {6}(CLUSTER_\w+): (.*)$/gm))
    env[name] = value.replaceAll(/\$\{(\w+)[^}]*\}/g, (_, each: string) => values[each] ?? '').replaceAll("'", '');
  expect(Object.keys(env).length).toBeGreaterThan(8);
  execFileSync(clusterProgram() ?? '', ['init', '--consensus', 'crdt'], { env, stdio: 'ignore' });
  const written: unknown = JSON.parse(await readFile(join(env['IPFS_CLUSTER_PATH'] ?? '', 'service.json'), 'utf8'));
  expect(written).toMatchObject({
    cluster: { peername: 'one', replication_factor_min: 2, replication_factor_max: 2, disable_repinning: false },
    api: {
      restapi: { basic_auth_credentials: { sealpin: 'pw' }, http_listen_multiaddress: '/ip4/0.0.0.0/tcp/9094' },
    },
    ipfs_connector: { ipfshttp: { node_multiaddress: '/dns4/kubo/tcp/5001' } },
  });
});
if (clusterProgram() === undefined) test.skip(noCluster);
