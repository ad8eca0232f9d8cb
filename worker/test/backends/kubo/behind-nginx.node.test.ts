/**
 * The set-up of docs/kubo, with the real programs: Kubo as its script configures it, behind nginx.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { StoredFile } from '../../../../shared/api.ts';
import { kuboProgram, noKubo, startKubo, type RealKubo } from '../../../../testkit/programs/kubo.ts';
import { startNginx } from '../../../../testkit/programs/nginx.ts';
import { withProgram } from '../../../../testkit/programs/programs.ts';
import { adminToken, startService, type Service } from '../../../../testkit/service.ts';
import { client, jsonOf, type Client } from '../../../../testkit/api-client.ts';
import { startLoopbackServer } from '../../../../testkit/loopback-server.ts';
import { long } from '../../../../testkit/long-run.ts';

const setUp = join(import.meta.dirname, '../../../../docs/kubo/allow-sealpin.sh');
const token = 'a-token-with_16';

withProgram('nginx', { probe: ['-v'] }, () => {
  it('streams a body: what has been sent arrives before the rest is sent', async () => {
    const arrived: string[] = [];
    const upstream = await startLoopbackServer((incoming, response) => {
      incoming.on('data', (chunk: Buffer) => arrived.push(chunk.toString()));
      incoming.on('end', () => response.end('done'));
    });
    const nginx = await startNginx(upstream.url);
    try {
      const sent = request(`${nginx.url}/api/v0/dag/import`, { method: 'POST' });
      for (const piece of ['first', 'second']) {
        sent.write(piece);
        await expect.poll(() => arrived.join('').endsWith(piece)).toBe(true);
      }
      sent.end();
      const [response] = (await once(sent, 'response')) as [NodeJS.ReadableStream];
      const [body] = (await once(response, 'data')) as [Buffer];
      expect(body.toString()).toBe('done');
    } finally {
      await nginx.close();
      await upstream.close();
    }
  });

  it.skipIf(!long)('ends an upload of which nothing comes for 90 s', { timeout: 120_000 }, async () => {
    const upstream = await startLoopbackServer((incoming) => void incoming.resume());
    const nginx = await startNginx(upstream.url);
    try {
      const startedAt = Date.now();
      const sent = request(`${nginx.url}/api/v0/dag/import`, { method: 'POST', headers: { 'Content-Length': 9 } });
      sent.on('error', () => undefined);
      sent.write('some');
      await new Promise((resolve) => sent.once('close', resolve).once('response', resolve));
      expect((Date.now() - startedAt) / 1000).toBeGreaterThan(89);
    } finally {
      await nginx.close();
      await upstream.close();
    }
  });

  describe.skipIf(kuboProgram() === undefined)(
    `in front of Kubo${kuboProgram() === undefined ? `: ${noKubo}` : ''}`,
    () => {
      let kubo: RealKubo;
      let nginx: { url: string; close(): Promise<void> };
      let service: Service;
      let owner: Client;
      let accessLog: string;
      beforeAll(async () => {
        kubo = await startKubo({ token, setUp });
        const dir = await mkdtemp(join(tmpdir(), 'sealpin-nginx-log-'));
        accessLog = join(dir, 'access.log');
        nginx = await startNginx(kubo.url, { changes: [[/access_log off;/, `access_log ${accessLog} sealpin;`]] });
        service = await startService({
          node: { url: kubo.url, close: async () => undefined },
          through: () => nginx.url,
          vars: { KUBO_TOKEN: token },
        });
        owner = client(service.url, (await service.account()).apiKey);
      });
      afterAll(async () => {
        await service.close();
        await nginx.close();
        await kubo.close();
        await rm(dirname(accessLog), { recursive: true });
      });

      it('stores, reads and deletes files, also larger than a part', async () => {
        const health = await client(service.url, adminToken).getHealth();
        expect(health.services).toMatchObject([{ status: 'ok' }]);
        for (const mode of ['plain', 'encrypted'] as const) {
          const data = randomBytes(20 * 2 ** 20);
          const { fileId } = await owner.store(mode, data);
          const read = await owner.read(fileId);
          expect(read.equals(data)).toBe(true);
          expect((await owner.ask('deleteFile', { fileId })).status).toBe(200);
        }
        expect(await (await call(nginx.url, 'pin/ls?names=true', token)).text()).not.toContain('sealpin:');
      });

      it('logs the ID of our request, and neither CIDs nor tokens', async () => {
        const response = await owner.ask('storePlain', {}, { body: 'logged' });
        const id = response.headers.get('X-Request-Id') ?? 'none';
        const { cid } = await jsonOf<StoredFile>(response, 201);
        await expect.poll(() => readFile(accessLog, 'utf8')).toContain(`${id} POST /api/v0/pin/add 200 `);
        const lines = await readFile(accessLog, 'utf8');
        for (const secret of [cid, token]) expect(lines).not.toContain(secret);
      });

      const call = (base: string, command: string, bearer = '', method = 'POST'): Promise<Response> =>
        fetch(`${base}/api/v0/${command}`, { method, headers: { Authorization: `Bearer ${bearer}` } });

      it.each([
        'add',
        'block/put',
        'config/show',
        'dag/put',
        'files/ls',
        'id',
        'key/gen?arg=x',
        'key/list',
        'name/publish',
        'pin/update',
        'pin/verify',
        'repo/gc',
        'shutdown',
        'swarm/peers',
        'cat/../config/show',
        'version%2f..%2fid',
        'VERSION',
      ])('refuses %s, at nginx and at Kubo itself', async (command) => {
        expect((await call(nginx.url, command, token)).status).toBe(404);
        expect([403, 404]).toContain((await call(kubo.url, command, token)).status);
      });

      it('refuses every other path, other methods, and who has no token', async () => {
        for (const path of ['/', '/ipfs/bafkqaaa', '/webui', '/debug/vars', '/api/v0/', '/api/v1/version'])
          expect((await fetch(`${nginx.url}${path}`, { method: 'POST' })).status, path).toBe(404);
        expect((await call(nginx.url, 'version', token, 'GET')).status).toBe(405);
        for (const wrong of ['', 'wrong', token.slice(1)])
          expect((await call(nginx.url, 'version', wrong)).status).toBe(403);
        expect((await call(nginx.url, 'version', token)).status).toBe(200);
      });

      it('answers the health check of the container', async () => {
        expect(await kubo.ipfs('cat', '/ipfs/bafkqaaa')).toBe('');
        expect(readFileSync(join(setUp, '../compose.yaml'), 'utf8')).toContain('" cat /ipfs/bafkqaaa');
      });
    },
  );
});
