/**
 * The settings of docs/kubo and docs/cluster, with a real Kubo: nobody else decides which nodes it
 * connects to.
 */
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { inCi } from '../../../../testkit/long-run.ts';
import { kuboProgram, noKubo, startKubo } from '../../../../testkit/programs/kubo.ts';
import { temporaryDirectory } from '../../../../testkit/temporary-directory.ts';

const docs = join(import.meta.dirname, '../../../../docs');

/**
 * Starts a Kubo as the image does, from the configuration that `ipfs init` writes, and returns its
 * configuration.
 */
async function configured(env: Record<string, string>): Promise<Record<string, Record<string, unknown>>> {
  const setUp = join(await temporaryDirectory(), 'start.sh');
  // Its own port would be 5001.
  const lines = ['ipfs config show > "$IPFS_PATH/before"', 'ipfs config Addresses.API /ip4/127.0.0.1/tcp/0'];
  await writeFile(setUp, `set -eu\n${lines.join('\n')}\nsh ${join(docs, 'kubo/settings.sh')}\n`);
  const setUpEnv = { IPFS_STORAGE_MAX: '80GB', ...env };
  const kubo = await startKubo({ profile: 'server', isOpen: true, setUp, setUpEnv });
  onTestFinished(kubo.close);
  expect(readFileSync(join(kubo.dir, 'before'), 'utf8')).toContain('"auto"');
  return JSON.parse(await kubo.ipfs('config', 'show')) as Record<string, Record<string, unknown>>;
}

if (kuboProgram() === undefined) test.skip(noKubo);
else {
  inCi('Kubo starts without AutoConf, without routers of others, and with the listed peers', async () => {
    const config = await configured({});
    expect(JSON.stringify(config)).not.toContain('"auto"');
    expect(config).toMatchObject({
      AutoConf: { Enabled: false },
      AutoTLS: { Enabled: false },
      HTTPRetrieval: { Enabled: false },
      Routing: { Type: 'dht', DelegatedRouters: [] },
      Ipns: { DelegatedPublishers: [] },
      DNS: { Resolvers: {} },
      Datastore: { StorageMax: '80GB' },
      Addresses: { Gateway: [] },
    });
    expect(config['Bootstrap']).toHaveLength(6);
    const swarm = config['Addresses']?.['Swarm'] as string[];
    expect(swarm.every((address) => /\/(tcp\/4001|udp\/4001\/quic-v1)$/.test(address))).toBe(true);
  });

  inCi('without peers it asks nobody for others', async () => {
    const config = await configured({ IPFS_BOOTSTRAP: '' });
    expect(config).toMatchObject({ Bootstrap: [], Routing: { Type: 'none' } });
  });
}

test('both set-ups run the Kubo that is tested, with these settings', () => {
  const [, version] = /^version=(v.*)$/m.exec(readFileSync(join(docs, '../.ci/kubo'), 'utf8')) ?? [];
  for (const folder of ['kubo', 'cluster']) {
    const compose = readFileSync(join(docs, folder, 'compose.yaml'), 'utf8');
    expect(compose).toContain(`image: ipfs/kubo:${version}\n`);
    expect(compose).toContain('settings.sh:/container-init.d/settings.sh:ro');
    expect(compose).toContain('IPFS_STORAGE_MAX: ${IPFS_STORAGE_MAX:?');
  }
});
