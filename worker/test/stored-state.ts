/** State of the service and its node, seen from outside of both. */
import type { NewAccountResponse } from '../../shared/api.ts';
import type { ObjectCall } from './clock.ts';
import type { Fault } from './faulty-calls.ts';
import { expect } from 'vitest';
import { decodeIndex } from '../backends/objects/object-index.ts';
import { numbersOf, parseObjectNames } from '../objects/pin/stores/object-names.ts';
import { shardName } from '../objects/pin/shard-names.ts';
import { bytesOf, client, type Client } from '../../testkit/api-client.ts';
import { present } from '../../testkit/present.ts';
import { backendKind, type Service } from '../../testkit/service.ts';

type Row = Record<string, unknown>;
export type Rows = {
  rows(table: string): Promise<Row[]>;
  ring(ms: number): Promise<void>;
  lease(ms: number): Promise<void>;
  tables(): Promise<number>;
  fail(call: string, fault: Fault): Promise<void>;
  awaits(call: string): Promise<boolean>;
  wait(ms: number): Promise<void>;
  stopAlarm(): Promise<void>;
  refer(count: number, cid: string): Promise<void>;
  forgetBlocks(): Promise<void>;
  change(statement: string): Promise<void>;
  breakTransaction(): Promise<void>;
  fill(count: number): Promise<void>;
  fillShares(count: number, endsAt: number): Promise<void>;
  create(origin: object, record: object): Promise<unknown>;
  fill(count: number, service: string): Promise<void>;
};

/** An account with its first key. */
export type Owner = { id: string; call: Client; object: Rows };

/** Time far beyond every time limit of the protocol. */
const longMs = 2 * 3_600_000;

export async function newOwner(service: Service): Promise<Owner> {
  const { account, apiKey }: NewAccountResponse = await service.account();
  return { id: account.id, call: client(service.url, apiKey), object: accountObject(service, account.id) };
}

/** The owner as before, at a service that was started again. */
export function ownerAt(service: Service, { id, call }: Owner): Owner {
  return { id, call: client(service.url, call.apiKey), object: accountObject(service, id) };
}

/**
 * Calls an object by a request: Miniflare's own way to it starts a thread for each workerd, which
 * costs more than workerd itself.
 */
async function call(service: Service, asked: ObjectCall): Promise<unknown> {
  const answer = await fetch(`${service.url}/test/object`, { method: 'POST', body: JSON.stringify(asked) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(text);
  return (JSON.parse(text, inBytes) as { value?: unknown }).value;
}

function inBytes(_: string, value: unknown): unknown {
  const { base64 } = (value ?? {}) as { base64?: unknown };
  return typeof base64 === 'string' ? new Uint8Array(Buffer.from(base64, 'base64')).buffer : value;
}

function object(service: Service, binding: ObjectCall['binding'], name: string): Rows {
  const methods = [
    'rows ring lease tables fail awaits wait stopAlarm fill fillShares refer',
    'forgetBlocks change create breakTransaction',
  ].flatMap((line) => line.split(' '));
  const entries = methods.map((method) => [
    method,
    (...args: unknown[]) => call(service, { binding, name, method, args }),
  ]);
  return Object.fromEntries(entries) as Rows;
}

export function accountObject(service: Service, id: string): Rows {
  return object(service, 'ACCOUNT', id);
}

export async function pinObject(service: Service, cid: string): Promise<Rows> {
  return shardObject(service, await shardName(cid));
}

/** @param name of one of the 256 objects `Pin` */
export function shardObject(service: Service, name: string): Rows {
  return object(service, 'PIN', name);
}

export function shareObject(service: Service, id: string): Rows {
  return object(service, 'SHARE', id);
}

/** Asks the node itself. */
export async function askNode(
  service: Service,
  command: string,
  query: Record<string, string> = {},
): Promise<Response> {
  return await fetch(`${service.node}/api/v0/${command}?${new URLSearchParams(query).toString()}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${service.rpcToken}` },
  });
}

/**
 * All CIDs that the node has pinned, or that the bucket has an index of, where that takes its
 * place.
 */
export async function pinned(service: Service): Promise<string[]> {
  if (service.bucket !== undefined)
    return (await service.bucket.keys()).filter((key) => key.includes('/cid/')).map((key) => key.slice(-59));
  const answer = await askNode(service, 'pin/ls', { type: 'recursive' });
  return Object.keys((await answer.json<{ Keys: Record<string, unknown> }>()).Keys);
}

/**
 * Those of some CIDs that the backend holds. What rows of parts name at a bucket (`<id>/<n>`) is
 * held while an object of it is there.
 */
export async function heldOf(service: Service, cids: readonly string[]): Promise<string[]> {
  const held = new Set(await pinned(service));
  const keys = (await service.bucket?.keys()) ?? [];
  const isHeld = (cid: string): boolean => {
    const names = parseObjectNames(cid);
    if (names === undefined) return held.has(cid);
    return numbersOf(names).some((n) => keys.some((key) => key.endsWith(`/data/${names.id}/${dataName(n)}`)));
  };
  return cids.filter((cid) => isHeld(cid));
}

const dataName = (n: number): string => String(n).padStart(8, '0');

/** The bytes of a file, as the backend has them. */
export async function bytesHeld(service: Service, cid: string): Promise<Buffer> {
  const { bucket } = service;
  if (bucket === undefined) return await bytesOf(askNode(service, 'cat', { arg: cid }));
  const keys = await bucket.keys();
  const keyOf = (end: string): string => present(keys.find((key) => key.endsWith(end)));
  const { id, objects } = await decodeIndex(cid, await bucket.read(keyOf(`/cid/${cid}`)));
  const parts = objects.map(async ({ n, bytes }) => {
    const object = await bucket.read(keyOf(`/data/${id}/${dataName(n)}`));
    return object.subarray(0, bytes);
  });
  return Buffer.concat(await Promise.all(parts));
}

/** Whether each part of an upload is a pin: in a bucket, parts are objects of the file. */
export const pinsParts = backendKind === 'kubo';

/** Whether two services can have one backend: a bucket of R2 belongs to one in the simulation. */
export const sharesBackends = backendKind !== 'r2';

/** Loses a file that the backend holds, as nobody asked it to. */
export async function loseHeld(service: Service, cid: string): Promise<void> {
  if (service.bucket === undefined) expect((await askNode(service, 'pin/rm', { arg: cid })).status).toBe(200);
  else for (const key of await service.bucket.keys()) if (key.endsWith(`/cid/${cid}`)) await service.bucket.lose(key);
}

/**
 * Lets the alarm of a CID do what follows an upload, so that it asks the node for nothing later:
 * the first look at a new pin comes after 7.5 s at the latest.
 */
export async function settle(service: Service, cid: string): Promise<void> {
  await (await pinObject(service, cid)).ring(8000);
}

/** Lets a long time pass for all that a CID and these accounts still wait for. */
export async function sweep(service: Service, owners: readonly Owner[], cids: readonly string[]): Promise<void> {
  for (let round = 0; round < 2; round += 1) {
    for (const owner of owners) await owner.object.ring(longMs);
    for (const cid of cids) await (await pinObject(service, cid)).ring(longMs);
  }
}
