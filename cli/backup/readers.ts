/**
 * Files in a backup for the time after Sealpin: `open.html`, `rescue.py` and a page for people.
 */
import { lstatSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Context } from '../context.ts';
import { writeSmall } from '../io/output-file.ts';
import { openerFile, shippedOpener } from '../local/code/opener-bundle.ts';
import { rescueFiles, shippedFile } from '../local/code/shipped-file.ts';
import type { Layout } from './layout.ts';

const readme = `This folder is a backup of files that were kept with Sealpin. They are encrypted.

To open them you need this folder and the password that was set when it was made.

1. Open the file open.html in a browser, such as Chrome, Edge or Firefox.
   It needs no internet, and sends nothing.
2. Choose this folder, and type the password.
3. Save the files that you need.

For many or very large files, with Python 3 and its package "cryptography":

    python3 rescue.py backup . ../files

What "sealpin encrypt" made stays encrypted: a password, or the private.key of its owner,
opens it, and neither is in this folder. Save such a file (rescue.py writes it under a
name that ends in .sealpin or .age), choose it in open.html, and give it that.

What each file here is: account.key is the key, with the password on it. files/ has
a record of each file, blobs/ what is in it. Nobody can open the files that the service
encrypted without account.key and its password, nor the others without their own
passwords and keys: keep them all.


Dieser Ordner ist eine Sicherung von Dateien aus Sealpin. Sie sind verschlüsselt.

Zum Öffnen brauchen Sie diesen Ordner und das Passwort, das beim Anlegen vergeben wurde.

1. Öffnen Sie die Datei open.html in einem Browser, etwa Chrome, Edge oder Firefox.
   Sie braucht kein Internet und sendet nichts.
2. Wählen Sie diesen Ordner, und geben Sie das Passwort ein.
3. Speichern Sie die Dateien, die Sie brauchen.

Für viele oder sehr große Dateien, mit Python 3 und dem Paket "cryptography":

    python3 rescue.py backup . ../dateien

Was "sealpin encrypt" gemacht hat, bleibt verschlüsselt: Ein Passwort oder die private.key seines
Besitzers öffnet es, und beides ist nicht in diesem Ordner. Speichern Sie eine solche Datei
(rescue.py gibt ihr einen Namen, der auf .sealpin oder .age endet), wählen Sie sie in open.html,
und geben Sie das Passwort oder den Schlüssel dazu an.

Ohne account.key und ihr Passwort kann niemand öffnen, was der Dienst verschlüsselt hat, und ohne
ihre eigenen Passwörter und Schlüssel nicht die anderen Dateien: Bewahren Sie alle auf.
`;

/**
 * Writes the readers that the folder has not, or that are empty. What else is there stays, a link
 * too, since it reads this folder, and may be somebody's own.
 * @throws file_unwritable, disk_full, not_installed
 */
export async function writeReaders({ root }: Layout, context: Context): Promise<void> {
  const sources: Record<string, () => Promise<string | Buffer | undefined>> = {
    'README.txt': async () => readme,
    [openerFile]: shippedOpener,
    ...Object.fromEntries(rescueFiles.map((path) => [basename(path), () => shippedFile(path)])),
  };
  for (const [name, text] of Object.entries(sources)) {
    const path = join(root, name);
    const found = lstatSync(path, { throwIfNoEntry: false });
    const isEmpty = found?.isFile() === true && found.size === 0;
    if (found !== undefined && !isEmpty) continue;
    const bytes = Buffer.from((await text()) ?? '');
    if (bytes.length === 0) throw new TypeError(`the package has no ${name}`);
    await writeSmall(path, bytes, { force: isEmpty, environment: context, fileOnly: true });
  }
}
