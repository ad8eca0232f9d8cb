/**
 * Both ends misbehave, over real sockets: no client sees a truncated response as complete, and no
 * partial upload is kept.
 */
import { randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { FileList, StoredFile } from '../../../shared/api.ts';
import { bytesOf, jsonOf, problemOf } from '../../../testkit/api-client.ts';
import { startBehindPeer, type Peer, type Turn } from '../peer.ts';
import { type Service } from '../../../testkit/service.ts';
import { askNode, newOwner, pinned, sweep, type Owner } from '../stored-state.ts';
import { first, flip, present } from '../../../testkit/present.ts';
import { long } from '../../../testkit/long-run.ts';

let service: Service;
let peer: Peer;
let owner: Owner;

beforeAll(async () => {
  ({ service, peer } = await startBehindPeer());
});
beforeEach(async () => {
  owner = await newOwner(service);
});
afterEach(() => {
  peer.onCommand = undefined;
  peer.onBody = undefined;
});
afterAll(() => service.close());

type Received = { status: number; headers: Record<string, unknown>; body: Buffer; complete: boolean };

/** A GET that reports how it ended: `complete` when all announced bytes arrived. */
function get(path: string, headers: Record<string, string> = {}): Promise<Received> {
  return new Promise((resolve, reject) => {
    const asked = request(
      `${service.url}${path}`,
      { headers: { Authorization: `Bearer ${owner.call.apiKey}`, ...headers } },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', () => undefined); // `complete` reports it
        response.on('close', () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks),
            complete: response.complete,
          }),
        );
      },
    );
    asked.on('error', reject);
    asked.end();
  });
}

const html = '<!doctype html><title>Just a moment…</title>';
const json = { 'content-type': 'application/json' };
const kuboError = JSON.stringify({ Message: 'no such thing', Code: 0, Type: 'error' });

describe.each(['encrypted', 'plain'] as const)(
  'S62 S63 S64: a pinning service lies about the bytes of a file in %s mode',
  (mode) => {
    const sizes = [10_000, 1_500_000].filter((size) => long || (mode === 'plain') === size > 1_048_576);
    const forms = [
      { Accept: 'application/octet-stream' },
      {},
      { Accept: 'application/octet-stream', Range: 'bytes=5-' },
    ];
    const reads = ['cat', 'block/get'];

    const lies: [string, (turn: Turn) => Promise<void> | void][] = [
      ['a page in HTML', (turn) => turn.answer(200, html, { 'content-type': 'text/html' })],
      ['nothing', (turn) => turn.answer(200, '')],
      [
        'other bytes',
        async (turn) => {
          const { body, deliver } = await turn.pass();
          deliver(randomBytes(body.length));
        },
      ],
      [
        'one bit changed',
        async (turn) => {
          const { body, deliver } = await turn.pass();
          const changed = Buffer.from(body);
          flip(changed, body.length >> 1);
          deliver(changed);
        },
      ],
      [
        'more bytes',
        async (turn) => {
          const { body, deliver } = await turn.pass();
          deliver(Buffer.concat([Buffer.from('x'), body, randomBytes(100)]));
        },
      ],
      [
        'fewer bytes',
        async (turn) => {
          const { body, deliver } = await turn.pass();
          deliver(body.subarray(0, body.length - 1));
        },
      ],
      [
        'half a response',
        async (turn) => {
          const { body } = await turn.pass();
          turn.begin(body.subarray(0, body.length >> 1), body.length, 'cut');
        },
      ],
      ['no response', (turn) => turn.cut()],
      ['an error', (turn) => turn.answer(500, kuboError, json)],
      ['429', (turn) => turn.answer(429, '', { 'retry-after': '7' })],
      ['another place', (turn) => turn.answer(302, '', { location: `${service.url}/v1/health` })],
    ];

    let holder: Owner;
    let files: { bytes: Buffer; file: StoredFile }[];
    beforeAll(async () => {
      holder = await newOwner(service);
      files = await Promise.all(
        sizes.map(async (size) => {
          const bytes = randomBytes(size);
          return { bytes, file: await holder.call.store(mode, bytes) };
        }),
      );
    });

    // Most are found by what both modes share.
    const inPlain = ['one bit changed', 'more bytes', 'half a response', 'nothing'];
    const inForm = lies.filter(([name]) => long || mode === 'encrypted' || inPlain.includes(name));
    it.each(inForm)('%s', async (_, lie) => {
      owner = holder;
      for (const { bytes, file } of files) {
        for (const headers of forms) {
          peer.onCommand = async (turn) => (reads.includes(turn.command) ? lie(turn) : (await turn.pass()).deliver());
          const received = await get(`/v1/storage/${file.fileId}`, headers);
          if (received.status < 300) expect(received.complete).toBe(false);
          else {
            expect(received.status).toBeGreaterThanOrEqual(500);
            expect(JSON.parse(received.body.toString())).toMatchObject({
              code: expect.stringMatching(
                /^(content_mismatch|misconfigured|pinning_(failed|unavailable|timeout|lost))$/,
              ) as string,
            });
          }
          if (received.status < 300 && 'Accept' in headers) {
            const start = 'Range' in headers ? 5 : 0;
            expect(Buffer.compare(received.body, bytes.subarray(start, start + received.body.length))).toBe(0);
          }
        }
        peer.onCommand = undefined;
        expect(
          Buffer.compare(await bytesOf(owner.call(`/v1/storage/${file.fileId}`, { headers: first(forms) })), bytes),
        ).toBe(0);
      }
    });

    it('S63: dies in the middle of a file', async () => {
      const bytes = randomBytes(3_000_000);
      const file = await owner.call.store(mode, bytes);
      let dead = false;
      peer.onCommand = async (turn) => {
        if (dead) return turn.cut();
        const { body, deliver } = await turn.pass();
        if (turn.command !== 'cat') return deliver();
        dead = true;
        return turn.begin(body.subarray(0, 2_500_000), body.length, 'cut');
      };
      const received = await get(`/v1/storage/${file.fileId}`, { Accept: 'application/octet-stream' });
      expect({ status: received.status, complete: received.complete }).toEqual({ status: 200, complete: false });
      expect(received.headers['content-length']).toBe('3000000');
      expect(received.body.length).toBeLessThan(bytes.length);
      expect(Buffer.compare(received.body, bytes.subarray(0, received.body.length))).toBe(0);
    });
  },
);

it('S68: how long a pinning service wants us to wait is passed on', async () => {
  const file = await owner.call.store('plain', 'x');
  peer.onCommand = (turn) => turn.answer(429, '', { 'retry-after': '7' });
  for (const asked of [
    owner.call(`/v1/storage/${file.fileId}`),
    owner.call('/v1/storage/plain', { method: 'POST', body: 'y' }),
  ]) {
    const response = await asked;
    expect(response.headers.get('Retry-After')).toBe('7');
    expect(await problemOf(response)).toBe('503 pinning_unavailable');
  }
});

describe('S67 S68 S69: a pinning service misbehaves during an upload', () => {
  const faults: [string, (turn: Turn) => Promise<void> | void][] = [
    ['answers a page in HTML with 200', (turn) => turn.answer(200, html, { 'content-type': 'text/html' })],
    ['answers nothing', (turn) => turn.answer(200, '')],
    ['answers JSON that is something else', (turn) => turn.answer(200, '{"ok":true}', json)],
    ['acknowledges something else', (turn) => turn.answer(200, '{"Stats":{"BlockCount":1},"Pins":["Qm"]}', json)],
    ['answers that it has no room', (turn) => turn.answer(500, kuboError, json)],
    ['answers 502', (turn) => turn.answer(502, html)],
    ['answers 403', (turn) => turn.answer(403, 'no')],
    ['answers 413', (turn) => turn.answer(413, 'no')],
    ['breaks its response off', (turn) => turn.begin(Buffer.from('{"Pins":'), 100, 'cut')],
    ['goes away', (turn) => turn.cut()],
  ];

  async function failsAndLeavesNothing(length = 1_100_000): Promise<void> {
    const bytes = randomBytes(length);
    const response = await owner.call('/v1/storage/plain', { method: 'POST', body: bytes });
    expect(response.status).toEqual(expect.any(Number));
    expect((await response.json<{ code: string }>()).code).toEqual(expect.stringMatching(/^(pinning_|misconfigured$)/));
    expect(response.status).toBeGreaterThanOrEqual(500);
    peer.onCommand = undefined;
    peer.onBody = undefined;
    expect((await jsonOf<FileList>(owner.call('/v1/storage'))).files).toEqual([]);
    const cids = (await owner.object.rows('file')).map((row) => String(row['cid']));
    await sweep(service, [owner], cids);
    expect(await owner.object.rows('file')).toEqual([]);
    expect((await pinned(service)).filter((cid) => cids.includes(cid))).toEqual([]);
  }

  // What the service does with a status or a page is the same for both commands.
  const ofBoth = /no room|403|413|502|HTML/;
  describe.each(['dag/import', 'pin/add'])('to %s', (command) => {
    it.each(faults.filter(([name]) => long || command === 'dag/import' || !ofBoth.test(name)))(
      'it %s',
      async (_, fault) => {
        peer.onCommand = async (turn) => (turn.command === command ? fault(turn) : (await turn.pass()).deliver());
        await failsAndLeavesNothing();
      },
    );
  });

  it('dies in the middle', async () => {
    peer.onBody = (bytes, cut) => {
      if (bytes > 1_200_000) cut();
    };
    await failsAndLeavesNothing(2_500_000);
  });
});

describe.runIf(long)('S64: a pinning service hangs', () => {
  it('before it answers to a read', async () => {
    const file = await owner.call.store('plain', 'x');
    peer.onCommand = () => undefined;
    expect(await problemOf(owner.call(`/v1/storage/${file.fileId}`))).toBe('504 pinning_timeout');
  }, 120_000);

  it('in the middle of its response', async () => {
    const file = await owner.call.store('plain', randomBytes(3_000_000));
    let dead = false;
    peer.onCommand = async (turn) => {
      if (dead) return;
      const { body, deliver } = await turn.pass();
      if (turn.command !== 'cat') return deliver();
      dead = true;
      turn.begin(body.subarray(0, 1_500_000), body.length, 'hang');
    };
    const received = await get(`/v1/storage/${file.fileId}`, { Accept: 'application/octet-stream' });
    expect({ status: received.status, complete: received.complete }).toEqual({ status: 200, complete: false });
  }, 300_000);

  it.each(['dag/import', 'pin/add'])(
    'before it answers to %s',
    async (command) => {
      peer.onCommand = async (turn) => (turn.command === command ? undefined : (await turn.pass()).deliver());
      expect(await problemOf(owner.call('/v1/storage/plain', { method: 'POST', body: `hangs at ${command}` }))).toBe(
        '504 pinning_timeout',
      );
      expect((await jsonOf<FileList>(owner.call('/v1/storage'))).files).toEqual([]);
    },
    300_000,
  );
});

describe('S69 S79: a client leaves in the middle of an upload', () => {
  const head = (path: string, lines: string[]): string =>
    [
      `POST ${path} HTTP/1.1`,
      `Host: ${new URL(service.url).host}`,
      `Authorization: Bearer ${owner.call.apiKey}`,
      'Content-Disposition: attachment; filename=x',
      ...lines,
      '',
      '',
    ].join('\r\n');

  function open(text: string, bytes: Buffer): Promise<Socket> {
    const { hostname, port } = new URL(service.url);
    return new Promise((resolve, reject) => {
      const socket = connect(Number(port), hostname, () => {
        socket.write(text);
        socket.write(bytes, () => resolve(socket));
      });
      socket.on('error', reject);
      socket.on('data', () => undefined);
    });
  }

  async function nothingIsKept(before: readonly string[]): Promise<void> {
    await expect.poll(() => peer.aborted.includes('dag/import')).toBe(true);
    expect((await jsonOf<FileList>(owner.call('/v1/storage'))).files).toEqual([]);
    expect(await owner.object.rows('file')).toEqual([]);
    expect(await pinned(service)).toEqual(before);
  }

  const leaves: [string, (socket: Socket) => void][] = [
    ['FIN', (socket) => void socket.end()],
    ['RST', (socket) => void socket.resetAndDestroy()],
  ];
  const framings: [string, (bytes: Buffer) => { lines: string[]; body: Buffer }][] = [
    ['Content-Length', (bytes) => ({ lines: [`Content-Length: ${bytes.length + 1000}`], body: bytes })],
    [
      'chunks',
      (bytes) => ({
        lines: ['Transfer-Encoding: chunked'],
        body: Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]),
      }),
    ],
  ];
  const cases = leaves.flatMap(([way, leave]) =>
    framings.flatMap(([framing, frame]) =>
      ['plain', 'encrypted'].map((mode) => ({ way, leave, framing, frame, mode })),
    ),
  );
  // Each pair of two of them.
  const pairs = cases.filter((_, index) => long || [0, 3, 5, 6].includes(index));

  it.each(pairs)('by $way, with $framing, in $mode mode: nothing is kept', async ({ leave, frame, mode }) => {
    const before = await pinned(service);
    peer.aborted.length = 0;
    const { lines, body } = frame(randomBytes(2_500_000));
    const moving = new Promise<void>((resolve) => {
      peer.onBody = (bytes) => {
        if (bytes > 1_000_000) resolve();
      };
    });
    const socket = await open(head(`/v1/storage/${mode}`, lines), body);
    await moving;
    leave(socket);
    await nothingIsKept(before);
    socket.destroy();
  });

  it('whose body is longer than announced: only the announced bytes are taken', async () => {
    const socket = await open(
      head('/v1/storage/plain', ['Content-Length: 10']),
      Buffer.from('0123456789 and more than that'),
    );
    await expect
      .poll(async () => (await jsonOf<FileList>(owner.call('/v1/storage'))).files.map((file) => file.size))
      .toEqual([10]);
    socket.destroy();
  });
});

describe('S90: a client that reads', () => {
  it('and leaves ends the reading from the pinning service', async () => {
    const file = await owner.call.store('plain', randomBytes(3_000_000));
    peer.aborted.length = 0;
    peer.onCommand = async (turn) => {
      const { body, deliver } = await turn.pass();
      if (turn.command === 'cat') turn.begin(body.subarray(0, 1_500_000), body.length, 'hang');
      else deliver();
    };
    const controller = new AbortController();
    const response = await fetch(`${service.url}/v1/storage/${file.fileId}`, {
      headers: { Authorization: `Bearer ${owner.call.apiKey}`, Accept: 'application/octet-stream' },
      signal: controller.signal,
    });
    const reader = present(response.body).getReader();
    await reader.read();
    controller.abort();
    await expect.poll(() => peer.aborted.includes('cat')).toBe(true);
  });
});

it('S73: bytes that the pinning service has lost are an error, not a file', async () => {
  for (const size of [100, 1_200_000]) {
    const file = await owner.call.store('plain', randomBytes(size));
    await askNode(service, 'pin/rm', { arg: file.cid });
    expect(await problemOf(owner.call(`/v1/storage/${file.fileId}`))).toBe('502 pinning_lost');
    expect((await jsonOf<StoredFile>(owner.call(`/v1/storage/${file.fileId}?data=false`))).cid).toBe(file.cid);
  }
});
