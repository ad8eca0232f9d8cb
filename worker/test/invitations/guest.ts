/** A guest of an account: who holds the key of an invitation. */
import { expect } from 'vitest';
import type { NewlyStoredFile, Share } from '../../../shared/api.ts';
import type { Client, Init } from '../../../testkit/api-client.ts';
import { metadataOf, version } from '../uploads/tus-client.ts';

export const minuteMs = 60_000;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

/** A time so many ms from now, as requests have it. */
export const soon = (ms: number): string => new Date(Date.now() + ms).toISOString();

export type Guest = Client & { id: string };

type Limits = { files?: number; bytes?: number; fileBytes?: number };

/** Invites a guest. @param o.forMs how long the invitation lasts */
export function invite(
  by: Client,
  { limits = { files: 200, bytes: 1024 ** 3 }, forMs = 90 * dayMs }: { limits?: Limits; forMs?: number } = {},
): Promise<Guest> {
  return by.withKey(['send'], { label: 'ann', limits, expiresAt: soon(forMs) });
}

/** The response to storing bytes until then; without a time where it is undefined. */
export function ask(call: Client, body: string, expiresAt?: string, init: Init = {}): Promise<Response> {
  const headers = { 'Content-Type': 'a/b', ...init.headers };
  return call.ask('storePlain', expiresAt === undefined ? {} : { expiresAt }, { ...init, body, headers });
}

let count = 0;
/** Stores a file for some days. */
export async function store(call: Client, days = 1): Promise<NewlyStoredFile> {
  const response = await ask(call, `file ${(count += 1)} of ${crypto.randomUUID()}`, soon(days * dayMs));
  expect(response.status).toBe(201);
  return await response.json<NewlyStoredFile>();
}

/** A request for a share of some files. */
export const request = (files: readonly string[], more: object = {}) => ({
  record: btoa(`a sealed record ${crypto.randomUUID()}`),
  files,
  password: false,
  ...more,
});

export const share = (call: Client, files: readonly string[], more: object = {}): Promise<Share> =>
  call.createShare(request(files, more));

/** The response to beginning an upload of so many bytes, a day long unless it is said otherwise. */
export function begin(
  call: Client,
  length: number,
  metadata: { expiresAt?: string | undefined } = {},
): Promise<Response> {
  const { expiresAt, ...named } = { filename: 'n', expiresAt: soon(dayMs), ...metadata };
  const values = expiresAt === undefined ? named : { ...named, expiresAt };
  const headers = { ...version, 'Upload-Length': String(length), 'Upload-Metadata': metadataOf(values) };
  return call('/v1/uploads/plain', { method: 'POST', headers });
}
