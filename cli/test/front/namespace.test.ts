import { entry } from '../../../testkit/programs/command-line.ts';
/**
 * A public service, its proxy and its clients in two network namespaces: the proxy of another
 * machine, as far as one machine has it.
 */
import { chmod, mkdir, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { inCi } from '../../../testkit/long-run.ts';
import { inNamespaces, refusedStatus } from '../../../testkit/namespaces.ts';
import { installed, withProgram } from '../../../testkit/programs/programs.ts';
import { temporaryDirectory } from '../environment.ts';
import { certificatesIn, proxies } from './real-proxies.ts';

const origin = 'https://localhost:8443';

/** Runs where the service is; `there` runs a command where the proxy and the clients are. */
const script = `
  set -e
  ip link set lo up || exit ${refusedStatus}
  unshare --net sleep 300 & other=$!
  while [ "$(readlink /proc/$other/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
  there() { nsenter --target $other --net "$@"; }
  ip link add name here type veth peer name proxy netns $other || exit ${refusedStatus}
  ip address add 10.0.0.1/24 dev here
  ip link set here up
  there ip address add 10.0.0.2/24 dev proxy
  there ip address add 10.0.0.3/24 dev proxy
  there ip link set proxy up
  there ip link set lo up
  sealpin() { "$NODE" --no-warnings "$ENTRY" "$@"; }
  sealpin start --origin $ORIGIN --proxy 10.0.0.2 --port 7420 --data-dir "$DIR/service" 2> "$DIR/log" > "$DIR/ready" &
  while [ ! -s "$DIR/ready" ]; do sleep 0.1; done
  there $PROXY > "$DIR/proxy" 2>&1 &
  ask() { there curl --silent --max-time 20 --output /dev/null --write-out '%{http_code}\\n' "$@" || true; }
  while [ "$(ask --cacert "$DIR/ca.pem" $ORIGIN/v1/health?live)" != 200 ]; do sleep 0.1; done
  ask --interface 10.0.0.2 --header 'Host: localhost:8443' http://10.0.0.1:7420/v1/health?live
  ask --interface 10.0.0.3 --header 'Host: localhost:8443' http://10.0.0.1:7420/v1/health?live
  ask --interface 10.0.0.2 http://10.0.0.1:7420/v1/health?live
  export NODE_EXTRA_CA_CERTS="$DIR/ca.pem"
  SEALPIN_API_KEY=$(there "$NODE" --no-warnings "$ENTRY" \\
    account create ann --quiet --service $ORIGIN --data-dir "$DIR/service")
  export SEALPIN_API_KEY SEALPIN_SERVICE=$ORIGIN
  link=$(there "$NODE" --no-warnings "$ENTRY" send "$DIR/letter" --quiet --data-dir "$DIR/ann")
  there "$NODE" --no-warnings "$ENTRY" receive "$link" "$DIR/received" --quiet --data-dir "$DIR/ben"
  cat "$DIR/received/letter"
  grep -o 'sealpin account create .*' "$DIR/log"
`;

withProgram('nginx', { probe: ['-v'] }, () => {
  inCi('a proxy in another network namespace passes everybody on, and is alone in that', async (context) => {
    const dir = await realpath(await temporaryDirectory());
    await chmod(dir, 0o755); // nginx has users of its own
    const { cert, key } = certificatesIn(dir);
    const { args } = await proxies.nginx({ dir, port: '8443', upstream: '10.0.0.1:7420', cert, key });
    for (const name of ['service', 'ann', 'ben']) await mkdir(join(dir, name), { mode: 0o700 });
    await writeFile(join(dir, 'letter'), 'Dear Ben\n');
    const PROXY = [installed('nginx'), ...args].join(' ');
    const env = { ENTRY: entry, ORIGIN: origin, DIR: dir, PROXY };
    // With its first process all others end.
    const flags = ['--net', '--pid', '--fork', '--mount-proc'];
    const { status, stdout, stderr } = await inNamespaces(context, flags, { what: 'network', script, env });
    expect(stdout, stderr).toBe(
      `200\n000\n421\nDear Ben\nsealpin account create <label> --data-dir '${dir}/service'\n`,
    );
    expect(status).toBe(0);
  });
});
