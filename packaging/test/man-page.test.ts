import { spawnSync } from 'node:child_process';
import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { headings } from '../../cli/commands/index.ts';
import { packageRoot } from '../../cli/local/package-root.ts';
import { withProgram } from '../../testkit/programs/programs.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { manualPages, manPaths } from '../manifest.ts';
import { manPages } from '../man-page.ts';
import { present } from '../../testkit/present.ts';

const folder = join(packageRoot(), 'cli');
const manual = await readFile(join(folder, 'README.md'), 'utf8');
const pages = await manPages(folder, '1.2.3');
const main = present(pages.get('man/sealpin.1'));

describe('the pages for man', () => {
  test('are one of the manual, one for each command, and one for each page beside it', async () => {
    expect([...pages.keys()]).toEqual(manPaths);
    const files = (await readdir(join(folder, 'manual'))).map((name) => name.replace(/\.md$/, ''));
    expect(files.toSorted()).toEqual([...manualPages].toSorted());
    const sections = Array.from(manual.matchAll(/^## (.+)$/gm), ([, title]) => present(title));
    const shown = Array.from(main.matchAll(/^\.SH\n(.+)$/gm), ([, title]) => present(title));
    expect(shown).toEqual(sections);
    for (const { name } of headings) {
      const page = name.replace(' ', '-');
      expect(main).toContain(`sealpin\\-${page.replaceAll('-', String.raw`\-`)}\\fR(1)`);
      expect(pages.get(`man/sealpin-${page}.1`)).toMatch(/^\.TH SEALPIN-.* 1 "" "sealpin 1\.2\.3" "Sealpin"\n/);
    }
  });

  test('of a command have its words of the manual, its flags and its examples', () => {
    const page = present(pages.get('man/sealpin-backup.1'));
    expect(page).toContain('.SH DESCRIPTION\n.PP\nWrites every file of the account into a folder');
    expect(page).toContain(String.raw`\fB\-\-prune\fR`);
    expect(page).toContain(String.raw`sealpin backup /media/disk/backup \-\-check`);
    expect(page).not.toContain('Stores the files of a backup');
  });

  test('take no text for a request or an escape', async () => {
    const odd = await temporaryDirectory();
    await cp(folder, odd, { recursive: true, filter: (path) => path === folder || /README\.md$|manual/.test(path) });
    const text = "## A\n\n`.so /etc/passwd` and `a\\fB`\n\n```\n.so x\n'br\n```\n\n- item\n\n  more\n\n.so y\n";
    await writeFile(join(odd, 'manual/sending.md'), `# T\n\n${text}`);
    const page = present((await manPages(odd, '1')).get('man/sealpin-sending.7'));
    expect(page).toContain(String.raw`\fB.so /etc/passwd\fR and \fBa\(rsfB\fR`);
    expect(page).toContain("\n\\&.so x\n\\&'br\n");
    expect(page).toContain('\n.IP \\(bu 2\nitem\n.RS 2\n.PP\nmore\n.RE\n');
    expect(page).toContain('\n\\&.so y\n');
    await writeFile(join(odd, 'manual/sending.md'), '# T\n\n> a quote\n');
    await expect(manPages(odd, '1')).rejects.toThrow('blockquote');
  });

  withProgram('groff', { probe: ['--version'] }, () => {
    test('are shown by groff without a warning', async () => {
      const directory = await temporaryDirectory();
      const files = Array.from(pages, ([name, page]) => ({ path: join(directory, basename(name)), page }));
      for (const { path, page } of files) await writeFile(path, page);
      // `break` warns about a word that is longer than its line.
      const argv = ['-man', '-Kutf8', '-Tutf8', '-ww', '-Wbreak', '-rLL=80n', ...files.map(({ path }) => path)];
      const ran = spawnSync('groff', argv, { encoding: 'utf8', maxBuffer: 16 * 1024 * 1024 });
      expect(ran).toMatchObject({ status: 0, stderr: '' });
      expect(ran.stdout.match(/^SEALPIN\S*\(\d\)/gm)).toHaveLength(files.length);
      expect(ran.stdout).not.toMatch(/&(?:lt|gt|amp|quot);/);
    });
  });
});
