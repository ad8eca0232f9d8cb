/**
 * Makes all files of a release in `dist/release`: `npm run release`. The same commit gives the same
 * bytes on any machine with the same Node. Nothing is published.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { bundleOpener, openerFile } from '../cli/local/code/opener-bundle.ts';
import { manifestFile } from '../cli/local/code/pages-manifest.ts';
import { rescueFiles } from '../cli/local/code/shipped-file.ts';
import { packageRoot } from '../cli/local/package-root.ts';
import { buildExecutable } from './executable.ts';
import { buildPackages, packInto } from './packages.ts';
import { originOf } from './release-manifest.ts';

/** For people who find the files of a release, and know nothing of it. */
const readme = `These files open what was encrypted with Sealpin, without Sealpin.

open.html  Open it in a browser, such as Chrome, Edge or Firefox. It needs no internet, and sends
           nothing. Choose an encrypted file (.age, .sealpin), a .car file, or the folder of a backup.
rescue.py  The same for many or very large files, with Python 3 and its package "cryptography". The
           other files called rescue_... and bip39-english.txt must lie beside it.

You need the password or the private key of what you open: nobody else has it.
SHA256SUMS has the checksum of every file. pages.json lists the web pages of this version.


Diese Dateien öffnen, was mit Sealpin verschlüsselt wurde, ohne Sealpin.

open.html  Öffnen Sie sie in einem Browser, etwa Chrome, Edge oder Firefox. Sie braucht kein Internet
           und sendet nichts. Wählen Sie eine verschlüsselte Datei (.age, .sealpin), eine .car-Datei
           oder den Ordner einer Sicherung.
rescue.py  Dasselbe für viele oder sehr große Dateien, mit Python 3 und dem Paket "cryptography".
           Die anderen Dateien rescue_... und bip39-english.txt müssen daneben liegen.

Sie brauchen das Passwort oder den privaten Schlüssel dazu: Niemand sonst hat sie.
`;

const root = packageRoot();
const [release = join(root, 'dist/release')] = process.argv.slice(2);
const outputOf = async (program: string, argv: readonly string[]): Promise<string> =>
  (await promisify(execFile)(program, argv, { cwd: root, maxBuffer: 1 << 26 })).stdout;

await rm(release, { recursive: true, force: true });
await mkdir(release, { recursive: true });
const packages = join(release, '..', 'npm');
const built = await buildPackages(packages);
// Only the workflow of a repository knows where a release comes from.
if (process.env['GITHUB_REPOSITORY'] !== undefined)
  for (const { path } of built) {
    const file = join(path, 'package.json');
    const manifest = JSON.parse(await readFile(file, 'utf8')) as { version: string };
    await writeFile(file, `${JSON.stringify({ ...manifest, ...originOf(process.env, manifest.version) }, null, 2)}\n`);
  }
await packInto(release, built);
await buildExecutable(join(release, 'sealpin-linux-x64'), join(packages, 'local'));
await cp(join(packages, 'sealpin', manifestFile), join(release, manifestFile));
await writeFile(join(release, openerFile), await bundleOpener());
for (const path of rescueFiles) await cp(join(root, path), join(release, basename(path)));
await writeFile(join(release, 'README.txt'), readme);
await writeFile(join(release, 'sbom.spdx.json'), await billOfMaterials());
const sums = await Promise.all(
  (await readdir(release)).toSorted().map(async (name) => {
    const sum = createHash('sha256').update(await readFile(join(release, name)));
    return `${sum.digest('hex')}  ${name}\n`;
  }),
);
await writeFile(join(release, 'SHA256SUMS'), sums.join(''));
console.log(sums.join('').trimEnd());

/** The time of the commit, in seconds, so that it gives the same release each time. */
async function timeOfCommit(): Promise<string> {
  const what = 'this is no checkout of git: clone it, or set SOURCE_DATE_EPOCH to the time of the release, in seconds';
  const said = await outputOf('git', ['log', '-1', '--format=%ct']).catch((cause: unknown) => {
    throw new Error(what, { cause });
  });
  return said.trim();
}

/** The packages that are shipped, with the time of the commit instead of now. */
async function billOfMaterials(): Promise<string> {
  const flags = ['--package-lock-only', '--sbom-format', 'spdx', '--omit', 'dev'];
  const bill = JSON.parse(await outputOf('npm', ['sbom', ...flags])) as {
    documentNamespace: string;
    creationInfo: { created: string };
  };
  const seconds = process.env['SOURCE_DATE_EPOCH'] ?? (await timeOfCommit());
  bill.creationInfo.created = new Date(Number(seconds) * 1000).toISOString();
  // npm ends it with a random UUID.
  const content = createHash('sha256').update(JSON.stringify({ ...bill, documentNamespace: '' }));
  bill.documentNamespace = bill.documentNamespace.replace(/[0-9a-f-]{36}$/, content.digest('hex'));
  return `${JSON.stringify(bill, null, 2)}\n`;
}
