/** What `doctor` says of the backends that the running service sees. */
import { expect, test } from 'vitest';
import { backendFindings, strayFindings } from '../checks.ts';

const ok = { id: 'store', status: 'ok' } as const;
const seen = { since: '2026-01-01T00:00:00.000Z', seenAt: '2026-01-01T00:00:00.000Z' };

test('nothing is said of backends that are in order, and of no strays', () => {
  expect(backendFindings({ services: [ok] })).toEqual([]);
  expect(backendFindings({})).toEqual([]);
  expect(strayFindings({ stores: [] })).toEqual([]);
});

test.each([
  [{ ...ok, status: 'failing' as const, code: 'misconfigured', hint: 'look' }, 'backend store: misconfigured', 'look'],
  [{ ...ok, warning: 'files will be lost', hint: 'look' }, 'backend store: files will be lost', 'look'],
  [
    { ...ok, refuses: { code: 'disk_full', ...seen } },
    'backend store: it takes no new files (disk_full)',
    'make room there, or raise its quota',
  ],
  [
    { ...ok, refuses: { code: 'misconfigured', ...seen } },
    'backend store: it takes no new files (misconfigured)',
    'its key must be allowed to write and to delete, too: npx wrangler tail shows what it answers to an upload',
  ],
])('%o is a finding with what to do', (service, what, todo) => {
  expect(backendFindings({ services: [ok, service] })).toEqual([{ ok: false, what, todo }]);
});

test('objects that belong to nothing wait for the operator, who is told when to keep them', () => {
  const [finding] = strayFindings({ stores: [{ service: 'store', objects: 101 }] });
  expect(finding).toMatchObject({
    ok: false,
    what: 'object store store: 101 objects belong to nothing, and wait for you',
    todo: expect.stringContaining('DELETE /v1/operator/strays/store') as string,
  });
});
