/**
 * The adapter for Kubo's RPC, in Node and in workerd, against services that are honest, slow, lying
 * and dying.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startNode } from '../../../../testkit/node.ts';
import { afterBody, fake, runtimes, type Runtime } from '../runtimes.ts';
import type { Scenario } from '../scenario.ts';
import { contract } from '../suite.ts';
import { present } from '../../../../testkit/present.ts';

const long = process.env['SEALPIN_LONG'] === '1';

const cid = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e';
const other = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku';

const calls: Record<string, Scenario> = {
  import: { url: '', method: 'import', bytes: 700_000 },
  pin: { url: '', method: 'pin', cid, bytes: 700_000 },
  stat: { url: '', method: 'stat', cid },
  unpin: { url: '', method: 'unpin', cid },
  block: { url: '', method: 'block', cid },
  read: { url: '', method: 'read', cid, offset: 0, length: 10 },
  ping: { url: '', method: 'ping' },
};
const json = Object.fromEntries(Object.entries(calls).filter(([name]) => name !== 'block' && name !== 'read'));
/**
 * Selects the scenarios of the short form: one call each that sends blocks, changes a pin and
 * reads, because each kind has code of its own.
 */
const inForm = (all: Record<string, Scenario>): [string, Scenario][] =>
  Object.entries(all).filter(([name]) => long || ['import', 'pin', 'block'].includes(name));

async function embedded() {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-adapter-'));
  const node = await startNode({ dir, token: 't' });
  return {
    url: node.url,
    token: 't',
    async close() {
      await node.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

// In the short form in workerd, which adapters run in when they are deployed.
for (const [name, open] of Object.entries(runtimes).filter(([runtime]) => long || runtime === 'workerd')) {
  describe(`${name}: the embedded node`, () => contract(open, embedded));

  describe(name, () => {
    let runtime: Runtime;
    beforeAll(async () => {
      runtime = await open();
    });
    afterAll(() => runtime.close());

    async function before(handler: (request: IncomingMessage, response: ServerResponse) => void, scenario: Scenario) {
      const service = await fake(handler);
      onTestFinished(service.close);
      return { ...(await runtime.play({ ...scenario, url: service.url })), service };
    }

    const say = (status: number, body: string | Uint8Array, headers: Record<string, string> = {}) =>
      afterBody((_, response) => response.writeHead(status, headers).end(body));

    test('an import asks for no pin, sends nothing before its first block, and without one no request', async () => {
      const answer = say(200, '{"Stats":{"BlockCount":1,"BlockBytesCount":700000}}\n');
      const { error, service } = await before(answer, present(calls['import']));
      expect(error).toBe(undefined);
      expect(service.commands).toEqual(['/api/v0/dag/import?pin-roots=false&stats=true']);
      expect(service.lengths).toEqual([undefined]);
      expect(
        (await before(answer, { ...present(calls['import']), fault: 'none' } as Scenario)).service.commands,
      ).toEqual([]);
    });

    test('a pin has our name and a time limit that grows with its bytes, and is asked for afterwards', async () => {
      const answer = say(200, `{"Pins":["${cid}"],"Keys":{"${cid}":{"Name":"sealpin:tested"}}}`);
      const { service, error } = await before(answer, { url: '', method: 'pin', cid, bytes: 1_048_576 * 16 });
      expect(error).toBe(undefined);
      expect(service.commands).toEqual([
        `/api/v0/pin/add?arg=${cid}&name=sealpin%3Atested&progress=false&timeout=10800ms`,
        `/api/v0/pin/ls?arg=${cid}&type=recursive&names=true`,
      ]);
    });

    describe('slow', () => {
      const timeouts = { responseMs: 150, pinMs: 150 };
      test.each(inForm(calls))('%s waits no longer than that', async (_, scenario) => {
        const late = (request: IncomingMessage, response: ServerResponse) =>
          afterBody(() => setTimeout(() => response.destroy(), 20_000).unref())(request, response);
        const began = performance.now();
        const { error } = await before(late, { ...scenario, timeouts });
        expect(error).toMatchObject({ code: 'pinning_timeout' });
        expect(performance.now() - began).toBeLessThan(15_000);
      });

      test('import into a service that stops taking', async () => {
        const scenario = { url: '', method: 'import', bytes: 12_000_000, timeouts } as const;
        const { error } = await before(() => undefined, scenario);
        expect(error).toMatchObject({ code: 'pinning_timeout' });
      });

      test('a pin that takes too long is a timeout, unless a block is missing', async () => {
        const deadline = '{"Message":"pin: context deadline exceeded","Code":0,"Type":"error"}';
        const absent =
          '{"Message":"error traversing DAG: block was not found locally (offline)","Code":0,"Type":"error"}';
        for (const [stat, code] of [
          [() => say(200, '{"Cid":{},"Size":1,"NumBlocks":1}'), 'pinning_timeout'],
          [() => say(500, '{"Message":"something else","Code":0,"Type":"error"}'), 'pinning_timeout'],
          [() => say(404, ''), 'pinning_timeout'],
          [() => afterBody(() => undefined), 'pinning_timeout'],
          [() => say(500, absent), 'pinning_unavailable'],
        ] as const) {
          const { error, service } = await before(
            (request, response) =>
              (present(request.url).includes('dag/stat') ? stat() : say(500, deadline))(request, response),
            { ...present(calls['pin']), timeouts },
          );
          expect(error).toMatchObject({ code });
          expect(service.commands[1]).toBe(`/api/v0/dag/stat?arg=${cid}&offline=true&progress=false&timeout=200ms`);
        }
      });

      test('an answer that begins and does not end', async () => {
        const begin = afterBody(
          (_, response) => void response.writeHead(200, { 'content-length': 1000 }).write('{"Pins"'),
        );
        for (const method of ['unpin', 'block', 'import', 'pin']) {
          expect((await before(begin, { ...present(calls[method]), timeouts })).error).toMatchObject({
            code: 'pinning_timeout',
          });
        }
      });

      test('a caller who leaves ends the request', async () => {
        for (const scenario of Object.values(calls)) {
          const { error } = await before(
            afterBody(() => undefined),
            { ...scenario, abortAfterMs: 50 },
          );
          expect(error).toMatchObject({ message: 'the caller left' });
        }
      });
    });

    describe('lying', () => {
      const html = '<!doctype html><title>Just a moment…</title>';
      test.each(inForm(json))('%s: HTML is no answer; with status 200 it is not Kubo', async (_, scenario) => {
        for (const [status, code] of [
          [200, 'misconfigured'],
          [500, 'pinning_failed'],
        ] as const) {
          const { error } = await before(say(status, html, { 'content-type': 'text/html' }), scenario);
          expect(error).toMatchObject({ code });
        }
      });

      test.each(inForm(json))('%s: JSON of another shape, nothing, or too much is no answer', async (_, scenario) => {
        for (const body of [
          '',
          '{}',
          '[]',
          'null',
          '"x"',
          '{"Keys":5}',
          '{"Pins":"x"}',
          `{"Pins":["${other}"]}`,
          '{"Name":"x","Bytes":5}',
          '{"Hash":"Qm"}',
          '{"Version":1}',
          `{"Pins":["${cid}"`,
          '{"Stats":{"BlockCount":1}',
          '{"Stats":{"BlockCount":2}}',
          '{"Stats":{"BlockCount":"1"}}',
          '{"Stats":5}',
          '{"Stats":{"BlockCount":1}}\n{"Root":{"Cid":{"/":"bafkqaaa"},"PinErrorMsg":""}}',
          `{"a":"${'x'.repeat(70_000)}"}`,
        ]) {
          expect((await before(say(200, body), scenario)).error, body.slice(0, 50)).toMatchObject({
            code: 'pinning_failed',
          });
        }
      });

      test('import: an error after the status 200 is an error, whatever else it says', async () => {
        const stats = '{"Stats":{"BlockCount":1}}';
        for (const body of [
          '{"Root":{"Cid":{"/":"bafkqaaa"},"PinErrorMsg":""}}\n{"Message":"it broke","Code":0,"Type":"error"}\n',
          `${stats}\n{"Message":"it broke","Code":0,"Type":"error"}`,
          `{"Root":{"Cid":{"/":"bafkqaaa"},"PinErrorMsg":"it broke"}}\n${stats}`,
        ]) {
          expect((await before(say(200, body), present(calls['import']))).error, body).toMatchObject({
            code: 'pinning_failed',
            message: 'tested: it broke',
          });
        }
      });

      test('import: one that arrived in part is worth another attempt', async () => {
        const body = '{"Message":"import failed after block bafk: unexpected EOF","Code":0,"Type":"error"}';
        expect((await before(say(500, body), present(calls['import']))).error).toMatchObject({
          code: 'pinning_unavailable',
        });
      });

      test('a full disk of the service is disk_full', async () => {
        for (const [status, message] of [
          [200, 'write /data/x: no space left on device'],
          [500, 'disk quota exceeded'],
        ] as const) {
          const body = JSON.stringify({ Message: message, Code: 0, Type: 'error' });
          for (const method of ['import', 'pin'])
            expect((await before(say(status, body), present(calls[method]))).error).toMatchObject({
              code: 'disk_full',
              message: 'the disk of the pinning service tested is full',
            });
        }
      });

      test('unpin: a CID of another kind, which an earlier version may have pinned, can be removed', async () => {
        const v0 = 'QmT78zSuBmuS4z925WZfrqQ1qHaJ56DQaTfyMUF7F8ff5o';
        const { value, service } = await before(
          say(200, `{"Keys":{"${v0}":{"Type":"recursive","Name":"sealpin:tested"}},"Pins":["${v0}"]}`),
          { ...present(calls['unpin']), cid: v0 } as Scenario,
        );
        expect(value).toBe('removed');
        expect(service.commands.at(-1)).toBe(`/api/v0/pin/rm?arg=${v0}`);
      });

      test('unpin: understands what the proxy of IPFS Cluster says of a missing pin', async () => {
        const cluster = afterBody((request, response) => {
          const isList = present(request.url).includes('pin/ls');
          const body = isList
            ? { Keys: { [cid]: { Type: 'recursive' } } }
            : { Message: 'pin is not part of the pinset', Code: 0, Type: 'error' };
          response.writeHead(isList ? 200 : 500).end(JSON.stringify(body));
        });
        expect((await before(cluster, present(calls['unpin']))).value).toBe('absent');
        expect((await before(cluster, present(calls['stat']))).value).toEqual({ pin: 'unknown' });
      });

      test.each(['stat', 'unpin', 'import', 'pin'])(
        '%s: another error of Kubo is not taken for absence',
        async (method) => {
          const body = '{"Message":"it broke","Code":0,"Type":"error"}';
          expect((await before(say(500, body), present(calls[method]))).error).toMatchObject({
            code: 'pinning_failed',
            message: 'tested: it broke',
          });
        },
      );

      test('block: more than 2 MiB is not taken', async () => {
        expect((await before(say(200, new Uint8Array(2_097_153)), present(calls['block']))).error).toMatchObject({
          code: 'pinning_failed',
        });
        expect(String((await before(say(200, new Uint8Array(2_097_152)), present(calls['block']))).value)).toHaveLength(
          2_097_152,
        );
      });

      test.each(inForm(calls))('S65: %s follows no redirect', async (_, scenario) => {
        const { error, service } = await before(say(307, '', { location: 'http://127.0.0.1:1/' }), scenario);
        expect(error).toMatchObject({ code: 'misconfigured', message: expect.stringContaining('307') });
        expect(service.commands).toHaveLength(1);
      });
    });

    describe('dying', () => {
      test.each(inForm(calls))('%s: nothing listens there', async (_, scenario) => {
        const closed = createServer().listen(0, '127.0.0.1');
        await new Promise((resolve) => closed.once('listening', resolve));
        const { port } = closed.address() as { port: number };
        await new Promise((resolve) => closed.close(resolve));
        expect((await runtime.play({ ...scenario, url: `http://127.0.0.1:${port}` })).error).toMatchObject({
          code: 'pinning_unavailable',
        });
      });

      test.each(inForm(calls))('%s: the connection breaks before the answer', async (_, scenario) => {
        expect(
          (
            await before(
              afterBody((request) => request.socket.resetAndDestroy()),
              scenario,
            )
          ).error,
        ).toMatchObject({ code: 'pinning_unavailable' });
      });

      test.each(inForm(calls).filter(([method]) => method !== 'read'))(
        '%s: the connection breaks within the answer',
        async (_, scenario) => {
          const half = afterBody((request, response) => {
            response.writeHead(200, { 'content-length': 1000 });
            response.write('{"Ver', () => request.socket.destroy());
          });
          expect((await before(half, scenario)).error).toMatchObject({ code: 'pinning_unavailable' });
        },
      );

      test('import: the connection breaks within the upload', async () => {
        const { error } = await before((request) => void request.once('data', () => request.socket.destroy()), {
          url: '',
          method: 'import',
          bytes: 12_000_000,
        });
        expect(error).toMatchObject({ code: 'pinning_unavailable' });
      });

      test.each(['goes on', 'is cut off'])(
        'import: a refusal during the upload is its reason; the connection %s',
        async (how) => {
          const refuse = (request: IncomingMessage, response: ServerResponse) => {
            response.writeHead(403).end('no');
            request.resume();
            if (how === 'is cut off') setTimeout(() => request.socket.destroy(), 100);
          };
          const { error } = await before(refuse, { url: '', method: 'import', bytes: 12_000_000, gapMs: 20 });
          expect(error).toMatchObject({
            code: 'misconfigured',
            message: expect.stringContaining('refused our credentials'),
          });
        },
      );

      test.each(inForm(calls))('S68: %s keeps Retry-After, in seconds or as a date', async (_, scenario) => {
        for (const status of [429, 502, 503, 504]) {
          expect((await before(say(status, 'busy', { 'retry-after': '17' }), scenario)).error).toMatchObject({
            code: 'pinning_unavailable',
            retryAfterSeconds: 17,
          });
        }
        const date = new Date(Date.now() + 3_600_000).toUTCString();
        const { error } = await before(say(503, 'busy', { 'retry-after': date }), scenario);
        expect(present(error).retryAfterSeconds).toBeGreaterThan(3500);
        expect(present(error).retryAfterSeconds).toBeLessThanOrEqual(3600);
        expect((await before(say(503, 'busy', { 'retry-after': 'soon' }), scenario)).error).not.toHaveProperty(
          'retryAfterSeconds',
          expect.anything(),
        );
      });

      test.each(inForm(calls))(
        'S68: %s: 400, 409 and 413 are not worth another attempt; 401, 403, 404 and 405 are a wrong configuration',
        async (_, scenario) => {
          for (const status of [400, 409, 413])
            expect((await before(say(status, 'no'), scenario)).error).toMatchObject({ code: 'pinning_failed' });
          for (const [status, hint] of [
            [401, 'refused the credentials'],
            [403, 'refused the credentials'],
            [404, 'not the RPC API of Kubo'],
            [405, 'not the RPC API of Kubo'],
          ] as const) {
            const { error, service } = await before(say(status, 'no'), scenario);
            expect(error).toMatchObject({
              code: 'misconfigured',
              message: expect.stringMatching(`^tested at ${service.url}: .*${status}`),
              hint: expect.stringContaining(hint),
            });
          }
        },
      );
    });

    test('an import that is aborted, or whose caller leaves, reaches the service as a broken body', async () => {
      for (const fault of ['abort', 'leave'] as const) {
        const { service } = await before((request) => void request.resume(), {
          url: '',
          method: 'import',
          bytes: 900_000,
          fault,
        });
        await expect.poll(() => service.bodies).toEqual(['aborted']);
      }
    });
  });
}
