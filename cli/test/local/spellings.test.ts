/**
 * However an address is spelled, what the guard of the local service looks at is what the Worker
 * serves.
 */
import { request } from 'node:http';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { newAccountId, newApiKey } from '../../../shared/crypto/index.ts';
import { newShareId } from '../../../shared/link/index.ts';
import { localPaths } from '../../local/state.ts';
import { api, remove, startHere, store, type RunningHere } from './harness.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { first, itemOf, present } from '../../../testkit/present.ts';

/** One path in ways that some parser takes for the same. */
function spellings(path: string, origin: string): string[] {
  const segments = path.split('/').slice(1);
  const hex = (text: string): string => Array.from(text, (char) => `%${char.charCodeAt(0).toString(16)}`).join('');
  const encoded = segments.flatMap((segment, index) =>
    [
      hex(segment),
      hex(segment).toUpperCase(),
      `${hex(first(segment))}${segment.slice(1)}`,
      `${segment.slice(0, -1)}${hex(itemOf(segment, -1))}`,
    ]
      .flatMap((each) => [each, each.replaceAll('%', '%25')])
      .map((each) => `/${segments.with(index, each).join('/')}`),
  );
  const between = ['//', '/./', '/%2e/', '/x/../', '/x/%2e%2E/', '\\', '%2f', '%5c', ';/', ';x=y/'];
  const joined = between.flatMap((each) => [`${each}${segments.join('/')}`, `/${segments.join(each)}`]);
  return [
    path,
    ...encoded,
    ...joined,
    path.toUpperCase(),
    `${path}/`,
    `${path};`,
    `${path}?`,
    `${path}%00`,
    `${path}%20`,
    `${origin}${path}`,
    `${origin.toUpperCase()}${encoded[0]}`,
  ];
}

/** The status of a request whose path is sent as it is. */
function ask(
  service: RunningHere,
  path: string,
  o: { method?: string; headers?: Record<string, string> } = {},
): Promise<number> {
  const { hostname, port } = new URL(service.url);
  return new Promise((resolve, reject) => {
    request({ hostname, port, path, agent: false, ...o }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode ?? 0));
    })
      .on('error', reject)
      .end();
  });
}

inCi('no spelling of an address makes files for an account or a share that does not exist', async () => {
  const service = await startHere();
  onTestFinished(() => remove(service));
  const { url } = service;
  const { state } = localPaths(service.dataDir);
  // The object with the counts of the service is made some time after its first request.
  const isCounted = (name: string): boolean => name.endsWith('.sqlite') && !name.startsWith('sealpin-Metrics/');
  const objects = async (): Promise<string[]> =>
    (await readdir(join(state, 'do'), { recursive: true })).filter(isCounted).toSorted();
  const { fileId } = await store(service, 'plain', new Uint8Array(10));
  const { id } = await api(service).createShare({ record: 'aGVsbG8=', files: [fileId], password: false, opens: 90 });
  const account = (): string => `/v1/accounts/${newAccountId()}`;
  const made: (() => string)[] = [
    () => `/v1/shares/${newShareId()}`,
    () => `${account()}/recovery`,
    () => `${account()}/signed/a.b.c`,
  ];
  // The first one of each class may make the one object that stands for all.
  for (const path of made) await ask(service, path());
  const before = await objects();
  const reached: string[] = [];
  for (const [index, spelled] of spellings(`/v1/shares/${id}`, url).entries()) {
    if ((await ask(service, spelled)) === 200) reached.push(spelled);
    for (const path of made)
      expect(await ask(service, present(spellings(path(), url)[index]))).toBeGreaterThanOrEqual(400);
    const { text } = await newApiKey(newAccountId());
    const listed = spellings('/v1/storage', url)[index];
    if (listed !== undefined) await ask(service, listed, { headers: { authorization: `Bearer ${text}` } });
    expect(await objects(), spelled).toEqual(before);
  }
  // Encoded, absolute, with dots: otherwise the rest says nothing.
  expect(reached.length).toBeGreaterThan(10);
});
