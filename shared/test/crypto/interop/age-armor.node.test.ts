/** What age reads of armor is what we read: the forms of the suite, at age itself. */
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { parseRecipients } from '../../../crypto/index.ts';
import { equal } from '../../../../testkit/assertions.ts';
import { providers } from '../../../../testkit/crypto-providers.ts';
import { first, present } from '../../../../testkit/present.ts';
import { inDirectory, programPath, run, withProgram } from '../../../../testkit/programs/programs.ts';
import { pattern } from '../streams.ts';
import { formsOfArmor } from '../suites/armored-forms.ts';
import { seal } from '../suites/containers.ts';
import { inCi } from '../../../../testkit/long-run.ts';

for (const [age, isOptional] of [
  ['age', false],
  ['age-current', true],
] as const)
  withProgram(age, { probe: ['--version'], isOptional }, () =>
    inCi(`${age} reads and refuses the same forms of armor`, () =>
      inDirectory(async (path) => {
        run(`${age}-keygen`, ['-o', path('key')]);
        const [recipient] = present(/age1[0-9a-z]+/.exec(await readFile(path('key'), 'utf8')));
        const container = await seal(first(providers), 'age', parseRecipients(recipient), pattern(10));
        const found = formsOfArmor(container).map(({ name, armor, isRead }) => {
          const { status } = spawnSync(programPath(age) ?? age, ['-d', '-i', path('key')], { input: armor });
          return [name, isRead, status === 0] as const;
        });
        // Its base64 skips a CR in a line that is short.
        const lenient = [['CR CR LF of the last line of base64', false, true]];
        equal(
          found.filter(([, ours, its]) => ours !== its),
          lenient,
          'forms that are not read alike',
        );
      }),
    ),
  );
