/**
 * tus 1.0.0 request by request: our service in both modes, tusd and @tus/server get the same ones.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { withProgram } from '../../../../testkit/programs/programs.ts';
import { sharedService, type Service } from '../../../../testkit/service.ts';
import { differences, type OtherServer } from './differences.ts';
import { send } from './request.ts';
import { scenarios, type Answer, type Scenario, type Step } from './script.ts';
import { ourUploads, startTusd, startTusNode, type TusServer } from './servers.ts';
import { long } from '../../../../testkit/long-run.ts';

/**
 * Sends the requests of a scenario, and resolves with the answers: the headers that the script asks
 * about.
 */
async function play(server: TusServer, steps: readonly Step[]): Promise<{ answers: Answer[]; upload: string }> {
  const urls = { endpoint: server.endpoint, upload: '', nowhere: server.nowhere };
  const answers: Answer[] = [];
  for (const { ask, answer } of steps) {
    const response = await send(ask.method, urls[ask.to], { ...server.headers, ...ask.headers }, ask.body);
    const location = response.headers.get('Location');
    if (location !== null) urls.upload = new URL(location, server.endpoint).href;
    const seen = Object.entries(answer.headers ?? {}).map(([name, wanted]) => {
      const value = response.headers.get(name);
      return [name, wanted === '*' && value !== null ? '*' : value] as const;
    });
    answers.push({ status: response.status, ...(answer.headers && { headers: Object.fromEntries(seen) }) });
  }
  return { answers, upload: urls.upload };
}

/**
 * The steps with the answers of a server: those of ours, but for the differences that are listed.
 */
function stepsFor(name: string, { steps }: Scenario, other?: OtherServer): Step[] {
  const listed = differences.filter(({ server }) => server === other).map(({ answers }) => answers[name] ?? {});
  return steps.map(({ ask, answer }, index) => {
    const changes = listed.map((answers) => answers[index + 1]);
    const status = changes.find((change) => change?.status !== undefined)?.status ?? answer.status;
    if (answer.headers === undefined) return { ask, answer: { status } };
    return { ask, answer: { status, headers: Object.assign({}, answer.headers, ...changes.map((c) => c?.headers)) } };
  });
}

function conforms(start: () => Promise<TusServer>, other?: OtherServer): void {
  let server: TusServer;
  // A key of ours has ten unfinished uploads at most.
  (other === undefined ? beforeEach : beforeAll)(async () => {
    server = await start();
  });
  afterAll(() => server.close());

  it.each(Object.entries(scenarios))('%s', async (name, scenario) => {
    const steps = stepsFor(name, scenario, other);
    const { answers, upload } = await play(server, steps);
    expect(answers).toEqual(steps.map(({ answer }) => answer));
    if (scenario.stored !== undefined) expect((await server.stored(upload)).toString()).toBe(scenario.stored);
  });
}

describe('our service', () => {
  let service: Service;
  beforeAll(async () => {
    service = await sharedService();
  });
  describe('encrypted', () => conforms(() => ourUploads(service, 'encrypted')));
  if (long) describe('plain', () => conforms(() => ourUploads(service, 'plain')));
});
// In the short form our service is held to the script alone: what the others answer to it does not
// change with our code.
if (long) {
  describe('@tus/server', () => conforms(startTusNode, '@tus/server'));
  withProgram('tusd', { probe: ['-version'], isOptional: true }, () => {
    describe('tusd', () => conforms(startTusd, 'tusd'));
  });
} else it.skip('plain mode, @tus/server and tusd: in the long form');

it('every difference is that of a step in the script', () => {
  const listed = differences.flatMap(({ answers }) =>
    Object.entries(answers).flatMap(([name, steps]) => Object.keys(steps).map((step) => [name, Number(step)] as const)),
  );
  expect(listed.filter(([name, step]) => scenarios[name]?.steps[step - 1] === undefined)).toEqual([]);
});
