/** The examples of docs/sdk.md, as one program. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { sharedService } from '../../testkit/service.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';

const root = resolve(import.meta.dirname, '../..');

test('the examples of the manual run, and print what they say', async () => {
  const manual = readFileSync(join(root, 'docs/sdk.md'), 'utf8');
  const blocks = Array.from(manual.matchAll(/^```ts\n([^]*?)^```/gm), ([, block]) => block ?? '');
  const program = blocks
    .join('')
    .replace("from 'sealpin'", `from '${pathToFileURL(join(root, 'client/index.ts')).href}'`);
  const service = await sharedService();
  const path = join(await temporaryDirectory(), 'examples.mts');
  await writeFile(path, program);
  const { apiKey } = await service.account();
  const env = { ...process.env, SERVICE: service.url, KEY: apiKey };
  const { stdout } = await promisify(execFile)(process.execPath, [path], { env });
  expect(blocks.length).toBeGreaterThan(5);
  expect(stdout.replaceAll(/^\d+/gm, 'N').replace(/id: '\w{22}'/, "id: 'ID'")).toBe(
    [
      'the plan',
      "{ kind: 'age', opens: 'keys' }",
      'hello',
      'el',
      'N',
      'N',
      'N undefined',
      'destroyed',
      'file.stored',
      'file.deleted',
      'Created',
      'true bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq',
      'the report',
      'report',
      'plans.txt the plans',
      'more.txt more',
      "[ 'active 1' ]",
      "{ id: 'ID', record: 'destroyed', opened: 1 }",
      "Ben [ 'receipts.txt' ]",
      'N',
      'N',
      'not_found not found',
      '',
    ].join('\n'),
  );
});
