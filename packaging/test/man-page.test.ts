import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { headings } from '../../cli/commands/index.ts';
import { packageRoot } from '../../cli/local/package-root.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { manPage } from '../man-page.ts';
import { present } from '../../testkit/present.ts';

const manual = await readFile(join(packageRoot(), 'cli/README.md'), 'utf8');

describe('the page for man', () => {
  test('has the sections of the manual, and each command', () => {
    const page = manPage(manual, '1.2.3');
    expect(page).toContain('"sealpin 1.2.3"');
    const sections = Array.from(manual.matchAll(/^## (.+)$/gm), ([, title]) => present(title));
    expect(Array.from(page.matchAll(/^\.SH\n(.+)$/gm), ([, title]) => present(title))).toEqual(sections);
    for (const { name } of headings) expect(page).toContain(`\n.SS\nsealpin ${name}\n`);
  });

  test('takes no text for a request or an escape', () => {
    const page = manPage("## A\n\n`.so /etc/passwd` and `a\\fB`\n\n```\n.so x\n'br\n```\n\n- item\n\n  more\n", '1');
    expect(page).toContain(String.raw`\fB.so /etc/passwd\fR and \fBa\(rsfB\fR`);
    expect(page).toContain("\n\\&.so x\n\\&'br\n");
    expect(page).toContain('\n.IP \\(bu 2\nitem\n.RS 2\n.PP\nmore\n.RE\n');
    expect(manPage('## A\n\n.so x\n', '1')).toContain('\n\\&.so x\n');
  });

  test('refuses what it cannot show', () => {
    expect(() => manPage('## A\n\n> a quote\n', '1')).toThrow('blockquote');
  });

  withProgram('groff', { probe: ['--version'] }, () => {
    test('is shown by groff without a warning', () => {
      // `break` warns about a word that is longer than its line.
      const argv = ['-man', '-Kutf8', '-Tutf8', '-ww', '-Wbreak', '-rLL=80n'];
      const ran = spawnSync('groff', argv, { input: manPage(manual, '1.2.3'), encoding: 'utf8' });
      expect(ran).toMatchObject({ status: 0, stderr: '' });
      expect(ran.stdout).toContain('sealpin encrypt');
      expect(ran.stdout).not.toMatch(/&(?:lt|gt|amp|quot);/);
    });
  });
});
