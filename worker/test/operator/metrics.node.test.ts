/** The service in numbers, as a Prometheus reads them. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inDirectory, programPath, run, withProgram } from '../../../testkit/programs/programs.ts';
import { metricsToken, type Service } from '../../../testkit/service.ts';
import { client, problemOf, type Client } from '../../../testkit/api-client.ts';
import { restartable } from '../kept-state.ts';
import { startPeer, type Peer } from '../peer.ts';
import { accountObject, newOwner, ownerAt, type Owner } from '../stored-state.ts';
import { create } from '../uploads/tus-client.ts';
import { present } from '../../../testkit/present.ts';

let service: Service;
let peer: Peer;
let operator: Client;
let owner: Owner;
const restart = restartable(
  'metrics',
  (started) => {
    service = started;
    operator = client(service.url, metricsToken);
  },
  async ({ node }) => {
    peer ??= await startPeer(node.url);
    return { through: () => peer.url };
  },
);
beforeAll(async () => {
  owner = await newOwner(service);
});
afterAll(() => peer.close());

/** The text of the metrics, which is a format of lines. */
async function scrape(): Promise<string> {
  const response = await operator.ask('getMetrics');
  expect(response.headers.get('Content-Type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  return await response.text();
}

const sample = /^([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (-?[0-9.e+-]+)$/;

/**
 * Samples by name and labels. Refuses what the format does not allow: each metric is announced
 * once, before its samples.
 */
function samplesOf(text: string): Map<string, number> {
  expect(text.endsWith('\n')).toBe(true);
  const samples = new Map<string, number>();
  const types = new Map<string, string>();
  let current = '';
  for (const line of text.slice(0, -1).split('\n')) {
    const [, announced, type] = /^# TYPE ([a-z_]+) (counter|gauge|summary)$/.exec(line) ?? [];
    if (announced !== undefined && type !== undefined) {
      expect(types.has(announced), line).toBe(false);
      types.set(announced, type);
      current = announced;
    } else if (!/^# HELP [a-z_]+ .+$/.test(line)) {
      const [, name = '', labels = '', value] = sample.exec(line) ?? [];
      const suffixes = types.get(current) === 'summary' ? ['_sum', '_count'] : [''];
      expect(
        suffixes.map((suffix) => `${current}${suffix}`),
        line,
      ).toContain(name);
      expect(samples.has(`${name}{${labels}}`), line).toBe(false);
      samples.set(`${name}{${labels}}`, Number(value));
    }
  }
  return samples;
}

const metrics = async (): Promise<Map<string, number>> => samplesOf(await scrape());
const label = (route: string, status: number, method = 'POST') =>
  `sealpin_http_requests_total{method="${method}",route="${route}",status="${status}"}`;

it('is for the operator alone', async () => {
  for (const token of ['', 'wrong', owner.call.apiKey])
    expect(await problemOf(client(service.url, token).ask('getMetrics'))).toBe('401 unauthorized');
});

it('counts requests, bytes and errors, also over a restart of the Worker', async () => {
  const before = await metrics();
  const grown = (after: Map<string, number>, name: string) => (after.get(name) ?? 0) - (before.get(name) ?? 0);
  const { fileId } = await owner.call.store('plain', 'x'.repeat(1000));
  await owner.call.read(fileId);
  await owner.call.store('plain', 'y'.repeat(500));
  expect(await problemOf(owner.call('/v1/storage/plain?no=1', { method: 'POST', body: 'z' }))).toBe(
    '400 invalid_request',
  );
  await owner.call(`/v1/${'unknown'.repeat(3)}`);
  await owner.call('/v1/health', { method: 'PURGE' });
  const after = await metrics();
  expect(grown(after, label('/v1/storage/plain', 201))).toBe(2);
  expect(grown(after, label('/v1/storage/plain', 400))).toBe(1);
  expect(grown(after, label('/v1/health', 405, 'other'))).toBe(1);
  expect(grown(after, 'sealpin_http_request_body_bytes_total{route="/v1/storage/plain"}')).toBe(1501);
  expect(grown(after, 'sealpin_http_response_body_bytes_total{route="/v1/storage/:fileId"}')).toBe(1000);
  expect(grown(after, 'sealpin_errors_total{code="invalid_request"}')).toBe(1);
  expect(grown(after, 'sealpin_errors_total{code="not_found"}')).toBe(1);
  const calls = 'sealpin_http_request_duration_seconds_count{method="POST",route="/v1/storage/plain"}';
  expect(grown(after, calls)).toBe(3);
  expect([...after.keys()].join('\n')).not.toContain('unknown');

  await restart.again();
  owner = ownerAt(service, owner);
  const again = await metrics();
  expect(again.get(label('/v1/storage/plain', 201))).toBe(after.get(label('/v1/storage/plain', 201)));
});

it('adds up what accounts and pins hold, and names none of them', async () => {
  const before = await metrics();
  const file = await owner.call.store('encrypted', 'secret');
  await create(owner.call, 'plain', 10);
  const text = await scrape();
  const after = samplesOf(text);
  const grown = (name: string) => (after.get(name) ?? 0) - (before.get(name) ?? 0);
  expect(grown('sealpin_files{}')).toBe(1);
  expect(grown('sealpin_stored_bytes{}')).toBeGreaterThan(6);
  expect(grown('sealpin_uploads_unfinished{state="open"}')).toBe(1);
  expect(grown('sealpin_pins{service="node",state="live"}')).toBe(1);
  expect(after.get('sealpin_accounts{}')).toBe(1);
  expect(after.get('sealpin_accounts_complete{}')).toBe(1);
  expect(after.get('sealpin_objects_failing{object="pin"}')).toBe(0);
  for (const secret of [owner.id, file.fileId, file.cid, metricsToken, owner.call.apiKey])
    expect(text.includes(secret)).toBe(false);
});

it('shows what is stuck: a backend that is down, messages that nobody acknowledges, late alarms', async () => {
  const { id, call } = await newOwner(service);
  const { fileId } = await call.store('plain', 'to be deleted');
  const object = accountObject(service, id);
  await object.stopAlarm();
  await object.fail('removeReference', 'before');
  expect((await call.ask('deleteFile', { fileId })).status).toBe(200);
  await object.wait(3_600_000);
  peer.onCommand = (turn) => turn.cut();
  const stuck = await metrics();
  expect(stuck.get('sealpin_outbox_messages{}')).toBe(1);
  expect(stuck.get('sealpin_outbox_oldest_seconds{}')).toBeGreaterThanOrEqual(3600);
  expect(stuck.get('sealpin_alarm_late_seconds{object="account"}')).toBeGreaterThanOrEqual(3500);
  await expect.poll(async () => (await metrics()).get('sealpin_pinning_service_up{service="node"}'), wait).toBe(0);
  peer.onCommand = undefined;
  await object.ring(1);
  expect((await metrics()).get('sealpin_outbox_messages{}')).toBe(0);
});

const wait = { timeout: 20_000 };

const monitoring = (name: string): string => join(import.meta.dirname, '../../../docs/monitoring', name);

/** What the names of samples of these types end with; the page names what they are of. */
const parts: Record<string, string[]> = { histogram: ['_bucket', '_count', '_sum'], summary: ['_count', '_sum'] };

it.each(['alerts.yml', 'grafana.json', 'README.md'])('has every metric that docs/monitoring/%s names', async (file) => {
  const types = (await scrape()).matchAll(/^# TYPE (\S+) (\S+)$/gm);
  const isPage = file === 'README.md';
  const has = [...types].flatMap(([, name = '', type = '']) =>
    [...(parts[type] ?? ['']), ...(isPage ? [''] : [])].map((part) => name + part),
  );
  const names = readFileSync(monitoring(file), 'utf8').match(/\bsealpin_[a-z_]+/g) ?? [];
  expect(names.length).toBeGreaterThan(5);
  // Those that a service has once there is something to show come last.
  const later = ['sealpin_pins', 'sealpin_http_response_body_bytes_total'];
  expect([...has, ...later]).toEqual(expect.arrayContaining(names));
});

/** The codes of errors that alerts count. */
const alertedCodes = [
  ...readFileSync(monitoring('alerts.yml'), 'utf8').matchAll(/errors_total\{code=~"([^"]+)"/g),
].flatMap(([, each = '']) => each.split('|'));

it('counts each error that an alert is about from 0 on, so that the first one is an increase', async () => {
  const counted = [...(await metrics()).keys()];
  expect(alertedCodes.length).toBeGreaterThan(3);
  expect(counted).toEqual(expect.arrayContaining(alertedCodes.map((code) => `sealpin_errors_total{code="${code}"}`)));
});

it('has a dashboard that Grafana can import: JSON with panels that query Prometheus', () => {
  const dashboard = JSON.parse(readFileSync(monitoring('grafana.json'), 'utf8')) as {
    panels: { id: number; targets: { expr: string }[] }[];
  };
  expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
  for (const { targets } of dashboard.panels) for (const { expr } of targets) expect(expr).toContain('sealpin_');
});

withProgram('promtool', { probe: ['--version'], isOptional: true }, () => {
  it('is what promtool accepts', async () => {
    const { stdout, stderr, status } = spawnSync(present(programPath('promtool')), ['check', 'metrics'], {
      input: await scrape(),
    });
    expect(status).toBe(0);
    expect(stdout.toString()).toBe('');
    expect(stderr.toString()).toBe('');
  });

  it.each([
    ['rules', 'alerts.yml'],
    ['config', 'prometheus.yml'],
  ])('check %s accepts docs/monitoring/%s', (kind, file) => {
    const flags = kind === 'config' ? ['--syntax-only'] : [];
    run('promtool', ['check', kind, ...flags, monitoring(file)]);
  });

  it('fires for the first errors of a service', async () => {
    const before = await metrics();
    // Nothing until an error comes, and nothing after it.
    const once = (code: string) => {
      const series = `sealpin_errors_total{code="${code}"}`;
      const first = before.get(series);
      return { series, values: `${first === undefined ? '_x20' : `${first}+0x20`} ${(first ?? 0) + 1}+0x20` };
    };
    const lasting = [
      { series: label('/v1/storage/plain', 503), values: '_x9 5+10x50' },
      { series: label('/v1/storage', 200, 'GET'), values: '0+100x60' },
      { series: 'sealpin_errors_total{code="unauthorized"}', values: '0+0x9 5+100x50' },
    ];
    const at = (minute: number, alertname: string, alerts: object[]) => ({
      eval_time: `${minute}m`,
      alertname,
      exp_alerts: alerts,
    });
    const internal = (code: string) => ({
      exp_labels: { severity: 'ticket', code },
      exp_annotations: { summary: `Requests end with the code ${code}` },
    });
    const ofCodes = ['internal', 'misconfigured'];
    const tests = [
      {
        input_series: ofCodes.map((code) => once(code)),
        alert_rule_test: [
          at(20, 'SealpinInternalErrors', []),
          at(
            23,
            'SealpinInternalErrors',
            ofCodes.map((code) => internal(code)),
          ),
        ],
      },
      {
        input_series: lasting,
        alert_rule_test: [
          at(40, 'SealpinServerErrors', [
            {
              exp_labels: { severity: 'page' },
              exp_annotations: { summary: 'More than 5 % of the requests fail' },
            },
          ]),
          at(40, 'SealpinGuessing', [
            {
              exp_labels: { severity: 'ticket' },
              exp_annotations: { summary: 'More than one request a second is refused for its key or its rate' },
            },
          ]),
        ],
      },
    ].map((each) => ({ interval: '1m', ...each }));
    await inDirectory(async (path) => {
      const file = { rule_files: [monitoring('alerts.yml')], evaluation_interval: '1m', tests };
      writeFileSync(path('alerts.test.yml'), JSON.stringify(file));
      run('promtool', ['test', 'rules', path('alerts.test.yml')]);
    });
  });

  it('parses every query of the dashboard', async () => {
    const { panels } = JSON.parse(readFileSync(monitoring('grafana.json'), 'utf8')) as {
      panels: { targets: { expr: string }[] }[];
    };
    const rules = panels.flatMap(({ targets }) => targets).map(({ expr }) => ({ record: 'x:y', expr }));
    await inDirectory(async (path) => {
      writeFileSync(path('rules.yml'), JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
      run('promtool', ['check', 'rules', path('rules.yml')]);
    });
  });
});
