/** Wait of a request for the end of the one that continues an upload. */
import { expect, it } from 'vitest';
import { RunningRequests } from '../../objects/account/calls/running-requests.ts';

/** Tells whether a promise is settled once all that does not wait has happened. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  void promise.then(() => (settled = true));
  await new Promise((resolve) => setTimeout(resolve));
  return settled;
}

const long = 60_000;

it('nobody waits for an upload that no request continues', async () => {
  const requests = new RunningRequests();
  requests.begin('other', 'a');
  expect(await isSettled(requests.idle('upload', long))).toBe(true);
  requests.begin('upload', 'a');
  requests.end('upload', 'a');
  expect(await isSettled(requests.idle('upload', long))).toBe(true);
});

it('a wait ends with the request, or when it has waited for long enough', async () => {
  const requests = new RunningRequests();
  requests.begin('upload', 'a');
  await requests.idle('upload', 1);
  const waiting = requests.idle('upload', long);
  expect(await isSettled(waiting)).toBe(false);
  requests.end('upload', 'a');
  expect(await isSettled(waiting)).toBe(true);
});

it('a request that was taken over neither keeps anybody waiting nor ends the one after it', async () => {
  const requests = new RunningRequests();
  requests.begin('upload', 'a');
  const first = requests.idle('upload', long);
  requests.begin('upload', 'b');
  expect(await isSettled(first)).toBe(true);
  requests.end('upload', 'a');
  const second = requests.idle('upload', long);
  expect(await isSettled(second)).toBe(false);
  requests.end('upload', 'b');
  expect(await isSettled(second)).toBe(true);
});
