/** The list of files, of a service that says something wrong, or never comes to an end. */
import { describe, expect, test } from 'vitest';
import { remember } from '../history.ts';
import { hostile, json, someApiKey, storedFile } from './hostile.ts';
import { run, temporaryDirectory } from './environment.ts';

const env = { SEALPIN_API_KEY: someApiKey };

describe('list', () => {
  test('shows the blob ID of the history where the service gives another one, and warns', async () => {
    const directory = await temporaryDirectory();
    const [ours, theirs] = [`bafkrei${'a'.repeat(52)}`, `bafkrei${'b'.repeat(52)}`];
    const stored = storedFile(theirs, 7);
    const service = await hostile({
      'GET /v1/storage': (_request, response) => json(response, 200, { files: [stored] }),
    });
    const entry = {
      v: 1,
      cid: ours,
      fileId: stored.fileId,
      service: `${service.url}/`,
      name: 'contract.pdf',
      bytes: 7,
    };
    await remember(directory, { ...entry, v: 1, at: stored.createdAt });
    const ran = await run(['list', '--service', service.url, '--data-dir', directory], directory, { env });
    expect(ran.stdout).toMatch(new RegExp(`^${ours}  .*  contract.pdf\n$`));
    expect(ran.stderr).toContain(`warning: the service reports another blob ID for contract.pdf (${theirs})`);
  });

  test('says how a file that the service encrypted is read', async () => {
    const stored = { ...storedFile(`bafkrei${'a'.repeat(52)}`, 7), mode: 'encrypted', filename: 'a.txt' };
    const service = await hostile({
      'GET /v1/storage': (_request, response) => json(response, 200, { files: [stored] }),
    });
    const ran = await run(['list', '--service', service.url], await temporaryDirectory(), { env });
    expect(ran.stdout).toContain(`a.txt  (encrypted by the service: sealpin get ${stored.fileId})\n`);
  });

  test.each([{ argv: ['list'] }, { argv: ['delete', `bafkrei${'a'.repeat(52)}`] }])(
    'a service that returns empty pages without end fails: $argv',
    async ({ argv }) => {
      let page = 0;
      const service = await hostile({
        'GET /v1/storage': (_request, response) => json(response, 200, { files: [], cursor: String((page += 1)) }),
      });
      const directory = await temporaryDirectory();
      const ran = await run([...argv, '--service', service.url, '--data-dir', directory], directory, { env });
      expect(ran).toMatchObject({ exit: 1, stdout: '' });
      expect(ran.stderr).toContain('the service returns empty pages of its list without end');
      expect(page).toBe(1);
    },
  );

  test('a service that returns files of one blob without end fails', async () => {
    let page = 0;
    const cid = `bafkrei${'a'.repeat(52)}`;
    const files = Array.from({ length: 100 }, () => storedFile(cid, 1));
    const service = await hostile({
      'GET /v1/storage': (_request, response) => json(response, 200, { files, cursor: String((page += 1)) }),
    });
    const ran = await run(['delete', cid, '--service', service.url], await temporaryDirectory(), { env });
    expect(ran).toMatchObject({ exit: 1, stdout: '' });
    expect(ran.stderr).toContain('more than 10000 files with this blob ID');
    expect(service.seen.every(({ method }) => method === 'GET')).toBe(true);
    expect(page).toBe(101);
  });
});
