import { readdir, readFile, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { encrypt, passwordRecipient } from '../../../shared/crypto/index.ts';
import { type BlockSource, carOf, cidBuilder, leafBytes } from '../../../shared/ipfs/index.ts';
import { nodeProvider } from '../../keys/node-provider.ts';
import { hostile, someApiKey, type Hostile } from '../hostile.ts';
import { run, temporaryDirectory, type Overrides, type Ran } from '../environment.ts';
import { first, flip, itemOf, present } from '../../../testkit/present.ts';

const mib = 1024 * 1024;
const password = 'some long password';
const plaintext = Buffer.from(Array.from({ length: 5 * mib + 7 }, (_, index) => (index * 7) % 251));
type Blob = { readonly cid: string; readonly car: Buffer; readonly source: BlockSource };

/** A blob with its CAR, as an honest gateway would give it. */
async function blobOf(bytes: Buffer): Promise<Blob> {
  const nodes = new Map<string, Uint8Array>();
  const leaves: string[] = [];
  const builder = cidBuilder({
    onNode: (cid, node) => void nodes.set(cid, node),
    onLeaf: (cid) => void leaves.push(cid),
  });
  await builder.write(bytes);
  const { cid } = await builder.finish();
  const memory: BlockSource = {
    id: 'memory',
    async block(wanted) {
      const at = leaves.indexOf(wanted);
      return nodes.get(wanted) ?? bytes.subarray(at * leafBytes, (at + 1) * leafBytes);
    },
  };
  return { cid, source: memory, car: Buffer.from(await new Response(carOf(cid, [memory])).arrayBuffer()) };
}

const { stream } = await encrypt(new Blob([plaintext]).stream(), {
  format: 'sealpin',
  recipients: [passwordRecipient(password, { name: 'scrypt', logN: 10 })],
  provider: nodeProvider,
});
const container = Buffer.from(await new Response(stream).arrayBuffer());
const blob = await blobOf(container);
const other = await blobOf(Buffer.from('something else'));
/** A section that is valid in any CAR. The header before it has 59 bytes. */
const foreignSection = (await blobOf(Buffer.alloc(mib, 'x'))).car.subarray(59);

const carType = { 'content-type': 'application/vnd.ipld.car; version=1; order=dfs; dups=y' };
type Handler = (request: IncomingMessage, response: ServerResponse) => unknown;

const honest: Handler = (_request, response) => response.writeHead(200, carType).end(blob.car);
const absent: Handler = (_request, response) => response.writeHead(404).end('no');
/**
 * Bytes before a block of this size: its length as a varint of three bytes (two below 16 KiB), and
 * its CID.
 */
const sectionBytes = (container.length % leafBytes) + 36 < 16_384 ? 38 : 39;
const flipped = Buffer.from(blob.car);
flip(flipped, flipped.length - 1000);

/** `decrypt` of the blob with these sources: the first is the service, the others are gateways. */
async function decryptFrom(
  handlers: readonly Handler[],
  overrides: Overrides = {},
  output = 'out',
): Promise<Ran & { directory: string; servers: Hostile[]; written: Buffer | undefined }> {
  const servers = await Promise.all(handlers.map(async (handler) => hostile({ 'GET /ipfs/': handler })));
  const directory = await temporaryDirectory();
  await writeFile(
    join(directory, 'config.json'),
    JSON.stringify({
      v: 1,
      service: first(servers).url,
      apiKey: someApiKey,
      gateways: servers.slice(1).map(({ url }) => url),
    }),
    { mode: 0o600 },
  );
  const ran = await run(['decrypt', blob.cid, output, '--data-dir', directory], directory, {
    env: { SEALPIN_PASSWORD: password },
    ...overrides,
  });
  const names = (await readdir(directory)).filter((name) => name !== 'config.json');
  expect(names).toEqual(ran.exit === 0 && output !== '-' ? [output] : []);
  return {
    ...ran,
    directory,
    servers,
    written: names.length === 1 ? await readFile(join(directory, output)) : undefined,
  };
}

test('a blob comes from the service, without an API key, and opens', async () => {
  const ran = await decryptFrom([honest, honest]);
  expect(ran.exit).toBe(0);
  expect(ran.written?.equals(plaintext)).toBe(true);
  const { seen } = first(ran.servers);
  expect(seen).toMatchObject([{ url: `/ipfs/${blob.cid}?format=car&dag-scope=entity&car-dups=y` }]);
  expect(first(seen).headers).not.toHaveProperty('authorization');
  expect(itemOf(ran.servers, 1).seen).toEqual([]);
});
const badSources: { title: string; handler: Handler; says: string }[] = [
  {
    title: 'wrong bytes',
    handler: (_request, response) => response.writeHead(200, carType).end(flipped),
    says: 'is something else',
  },
  {
    title: 'another file',
    handler: (_request, response) => response.writeHead(200, carType).end(other.car),
    says: 'the CAR ends without',
  },
  {
    title: 'an HTML page with 200',
    handler: (_request, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html>Please log in</html>'),
    says: 'it returned something that is not IPFS data',
  },
  {
    title: 'an HTML page that says it is a CAR',
    handler: (_request, response) => response.writeHead(200, carType).end('<html>Please log in</html>'),
    says: 'the CAR cannot be read',
  },
  {
    title: 'an empty body',
    handler: (_request, response) => response.writeHead(200, carType).end(),
    says: 'the CAR cannot be read',
  },
  {
    title: 'a CAR that is cut off',
    handler: (_request, response) => response.writeHead(200, carType).end(blob.car.subarray(0, 3 * mib)),
    says: 'the CAR cannot be read: it is cut off',
  },
  {
    title: 'a CAR without its last block',
    handler: (_request, response) =>
      response
        .writeHead(200, carType)
        .end(blob.car.subarray(0, blob.car.length - (container.length % leafBytes) - sectionBytes)),
    says: 'the CAR ends without',
  },
  {
    title: 'an error',
    handler: (_request, response) => response.writeHead(500).end('<html>Oops</html>'),
    says: 'it answered with status 500',
  },
  { title: 'nothing', handler: absent, says: 'it does not have this blob' },
  {
    title: 'a broken connection',
    handler: (request) => request.socket.destroy(),
    says: 'it closed the connection without an answer',
  },
  {
    title: 'a broken connection midway',
    handler: (_request, response) =>
      void response
        .writeHead(200, { ...carType, 'content-length': String(blob.car.length) })
        .write(blob.car.subarray(0, 2 * mib), () => setTimeout(() => response.destroy(), 20)),
    says: 'it closed the connection mid-response',
  },
  {
    title: 'a redirect',
    handler: (_request, response) => response.writeHead(302, { location: 'http://169.254.169.254/' }).end(),
    says: 'it redirects to http://169.254.169.254/ (status 302)',
  },
];

const exitFor = (says: string): number => (/something else/.test(says) ? 5 : says.includes('not have') ? 3 : 6);
describe('S62, S63, S65: a source that gives', () => {
  test.each(badSources)('$title is skipped for the next one', async ({ handler }) => {
    const ran = await decryptFrom([handler, honest]);
    expect(ran.exit).toBe(0);
    expect(ran.written?.equals(plaintext)).toBe(true);
  });

  test.each(badSources)('$title, and no other: an error, and no file', async ({ handler, says }) => {
    const ran = await decryptFrom([handler]);
    expect(ran).toMatchObject({ exit: exitFor(says), stdout: '' });
    expect(ran.stderr).toContain(says);
    expect(ran.stderr).toContain('sealpin: hint: ');
  });

  test('wrong bytes in the middle of the output: the next source continues, and every byte comes once', async () => {
    const ran = await decryptFrom(
      [(_request, response) => response.writeHead(200, carType).end(flipped), honest],
      {},
      '-',
    );
    expect(ran.exit).toBe(0);
    expect(ran.stdoutBytes.equals(plaintext)).toBe(true);
  });
});

describe('S64: a source that', () => {
  // Long enough for the honest source on a busy machine.
  const timeouts = { stallMs: 500, bytes: 100_000, responseMs: 500 };
  test.each([
    { title: 'never answers', handler: (() => undefined) satisfies Handler },
    {
      title: 'stops midway',
      handler: ((_request, response) =>
        response.writeHead(200, carType).write(blob.car.subarray(0, 2 * mib))) satisfies Handler,
    },
    {
      title: 'gives a byte now and then',
      handler: ((_request, response) => {
        response.writeHead(200, carType);
        let at = 0;
        const timer = setInterval(() => response.write(blob.car.subarray(at, (at += 1))), 10);
        response.on('close', () => clearInterval(timer));
      }) satisfies Handler,
    },
  ])('$title is given up for the next one', async ({ handler }) => {
    const ran = await decryptFrom([handler, honest], { timeouts });
    expect(ran.exit).toBe(0);
    expect(ran.written?.equals(plaintext)).toBe(true);
  });

  test('stops midway, and no other: it is a service that cannot be reached', async () => {
    const ran = await decryptFrom(
      [(_request, response) => void response.writeHead(200, carType).write(blob.car.subarray(0, 2 * mib))],
      { timeouts: { stallMs: 150, bytes: 100_000, responseMs: 9000 } },
    );
    expect(ran).toMatchObject({ exit: 6, stdout: '' });
    expect(ran.stderr).toMatch(/it sent no whole block within 0.15 s|is too slow/);
    expect(ran.stderr).toContain('sealpin: hint: try again later\n');
  });

  test.each([
    { title: 'zeros', start: blob.car.subarray(0, 59), more: Buffer.alloc(65_536), says: 'a section of 0 bytes' },
    {
      title: 'one endless block',
      start: Buffer.concat([blob.car.subarray(0, 59), Buffer.from([0xff, 0xff, 0xff, 0x7f])]),
      more: Buffer.alloc(65_536),
      says: 'a section of 268435455 bytes',
    },
    {
      title: 'blocks that were not asked for',
      start: blob.car.subarray(0, 59),
      more: foreignSection,
      says: 'the CAR has other blocks instead of',
    },
    {
      title: 'an endless header',
      start: Buffer.alloc(0),
      more: Buffer.alloc(65_536, 0xff),
      says: 'its header has no length',
    },
  ])('gives $title, without end, is given up for that reason, and left', async ({ start, more, says }) => {
    let left: () => void = () => undefined;
    const closed = new Promise<void>((resolve) => (left = resolve));
    const ran = await decryptFrom([
      (_request, response) => {
        response.once('close', left);
        response.writeHead(200, carType);
        response.write(start);
        const send = (): void => {
          while (!response.destroyed && response.write(more));
          if (!response.destroyed) response.once('drain', send);
        };
        send();
      },
    ]);
    expect(ran).toMatchObject({ exit: 5, stdout: '' });
    expect(ran.stderr).toContain(says);
    await closed;
  });
});

test('a source that fails three times in the same way is named once', async () => {
  const broken = present(badSources.find(({ title }) => title === 'a broken connection midway'));
  const ran = await decryptFrom([broken.handler]);
  expect(ran.stderr.match(/closed the connection mid-response/g)).toHaveLength(1);
  expect(ran.stderr).toContain('what the service stores is damaged');
});

test('a gateway that redirects to a subdomain is reported as one', async () => {
  const ran = await decryptFrom([
    (_request, response) => response.writeHead(301, { location: `http://${blob.cid}.ipfs.localhost:8080/` }).end(),
  ]);
  expect(ran.stderr).toContain(`it redirects to http://${blob.cid}.ipfs.localhost:8080/ (status 301)`);
  expect(ran.stderr).toContain('hint: a subdomain gateway cannot be used');
});

test('S65: a redirect has the hint that redirects are not followed', async () => {
  const ran = await decryptFrom([present(badSources.find(({ title }) => title === 'a redirect')).handler]);
  expect(ran.stderr).toContain('sealpin: hint: redirects are not followed');
});

test('a gateway without CARs and blocks is reported as one', async () => {
  const ran = await decryptFrom([(_request, response) => response.writeHead(406).end('no')]);
  expect(ran.stderr).toContain('it gives neither CAR files (status 406) nor single blocks');
});

test('a gateway that gives single blocks only is read block by block', async () => {
  const ran = await decryptFrom([
    async ({ url = '' }, response) => {
      if (!url.includes('format=raw')) return response.writeHead(501).end();
      const bytes = await blob.source.block(/\/ipfs\/(\w+)/.exec(url)?.[1] ?? '', new AbortController().signal);
      return response.writeHead(200, { 'content-type': 'application/vnd.ipld.raw' }).end(bytes);
    },
  ]);
  expect(ran).toMatchObject({ exit: 0 });
});

test('a source that does not answer holds nothing up: another one is asked for the same blob', async () => {
  expect(await decryptFrom([() => undefined, honest])).toMatchObject({ exit: 0 });
});

test('when no source has the blob, each says why', async () => {
  const ran = await decryptFrom([absent, (_request, response) => response.writeHead(500).end(), absent]);
  expect(ran).toMatchObject({ exit: 3, stdout: '' });
  for (const { url } of ran.servers) expect(ran.stderr).toContain(new URL(url).host);
  expect(ran.stderr).toContain('it answered with status 500');
});

describe('S66: a blob ID', () => {
  test.each([
    `ipfs://${blob.cid}`,
    `/ipfs/${blob.cid}`,
    ` ${blob.cid}\n`,
    `ipfs://${blob.cid}/`,
    `https://ipfs.io/ipfs/${blob.cid}?download=1`,
    `https://${blob.cid}.ipfs.dweb.link/`,
  ])('is taken as people copy it: %j', async (text) => {
    const server = await hostile({ 'GET /ipfs/': honest });
    const directory = await temporaryDirectory();
    const ran = await run(['decrypt', text, 'out', '--service', server.url, '--data-dir', directory], directory, {
      env: { SEALPIN_PASSWORD: password },
    });
    expect({ exit: ran.exit, stderr: ran.stderr }).toMatchObject({ exit: 0 });
  });

  test.each([
    { text: blob.cid.toUpperCase(), says: 'that blob ID is in capitals' },
    { text: 'https://example.com/letter', says: 'that is a link without a blob ID' },
    { text: `https://ipfs.io/ipfs/${blob.cid}/letter.pdf`, says: 'there is a path after the blob ID' },
    { text: `ipfs://${blob.cid}/letter.pdf`, says: 'there is a path after the blob ID' },
    { text: blob.cid.slice(0, -1), says: 'that blob ID has 58 characters instead of 59' },
  ])('that is another thing is reported as such: $text', async ({ text, says }) => {
    const server = await hostile({});
    const ran = await run(['decrypt', text, 'out', '--service', server.url], await temporaryDirectory());
    expect(ran).toMatchObject({ exit: 2, stdout: '' });
    expect(ran.stderr).toContain(says);
    expect(server.seen).toEqual([]);
  });

  test.each([
    // A character that base58 does not have.
    'QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPKy0',
    blob.cid.toUpperCase(),
    `${blob.cid}/../x`,
    `${blob.cid}a`,
    blob.cid.slice(0, -1),
    'bafkqaaa',
    'bafy',
    '..%2f..%2fetc',
  ])('that is malformed is refused and never asked for: %s', async (text) => {
    const server = await hostile({});
    const directory = await temporaryDirectory();
    const ran = await run(['decrypt', text, 'out', '--service', server.url, '--data-dir', directory], directory, {
      env: { SEALPIN_PASSWORD: password },
    });
    // With a slash it is a path, and there is no such file.
    expect(ran.exit).toBe(text.includes('/') ? 3 : 2);
    expect(ran.stdout).toBe('');
    expect(server.seen).toEqual([]);
  });
});

describe('export', () => {
  const exportFrom = async (handler: Handler): Promise<Ran & { car: Buffer | undefined }> => {
    const server = await hostile({ 'GET /ipfs/': handler });
    const directory = await temporaryDirectory();
    const ran = await run(
      ['export', blob.cid, 'blob.car', '--service', server.url, '--data-dir', directory],
      directory,
    );
    const names = await readdir(directory);
    return { ...ran, car: names.length === 0 ? undefined : await readFile(join(directory, 'blob.car')) };
  };

  test('gives a CAR of exactly the blocks of the blob', async () => {
    const ran = await exportFrom(honest);
    expect(ran).toMatchObject({ exit: 0, stdout: '' });
    expect(ran.car?.equals(blob.car)).toBe(true);
  });

  test('gives no more than that when a source appends something', async () => {
    const ran = await exportFrom((_request, response) =>
      response.writeHead(200, carType).end(Buffer.concat([blob.car, other.car])),
    );
    expect(ran.car?.equals(blob.car)).toBe(true);
  });

  test.each(badSources)('leaves no file when it gets $title', async ({ handler, says }) => {
    expect(await exportFrom(handler)).toMatchObject({ exit: exitFor(says), stdout: '', car: undefined });
  });
});
