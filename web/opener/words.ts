/** The words of `open.html` that no other page has. */
import type { Words } from '../words/en.ts';

const en = {
  tagline: 'Opens your files without a network',
  homeTitle: 'Open a file or a backup',
  homeText:
    'This page works without a network and without Sealpin: it runs from this computer and can send nothing. Choose ' +
    'an encrypted file (.age, .sealpin), a .car file, or the folder of a backup.',
  chooseFolder: 'Choose the folder of a backup',
  backupTitle: 'A backup',
  backupText: 'It opens with the password that was set when its account.key was written.',
  openedTitle: (files: number) => (files === 1 ? 'One file' : `${files} files`),
  unreadable: (files: number) =>
    files === 1
      ? 'One file of the backup cannot be read. rescue.py names it.'
      : `${files} files of the backup cannot be read. rescue.py names them.`,
  sealed: 'Encrypted by its owner before it was stored: save it, then open it here with its own password or key.',
  tooLarge: (size: string) =>
    `This browser holds a file in memory until it is saved, and takes at most ${size} so. ` +
    'Open this page in Chrome or Edge on a computer, or use rescue.py.',
  noRoom: 'This browser has no room for a file of this size. Use rescue.py, which lies beside this page.',
  savedHandedOver: 'Complete and checked. Your browser is saving it now.',
  footer: 'This page is one file. It has no address to call, and its policy forbids every connection.',
};

const de: typeof en = {
  tagline: 'Öffnet Ihre Dateien ohne Netz',
  homeTitle: 'Datei oder Sicherung öffnen',
  homeText:
    'Diese Seite braucht weder Netz noch Sealpin: Sie läuft auf diesem Computer und kann nichts senden. ' +
    'Wählen Sie eine verschlüsselte Datei (.age, .sealpin), eine .car-Datei oder den Ordner einer Sicherung.',
  chooseFolder: 'Ordner einer Sicherung wählen',
  backupTitle: 'Eine Sicherung',
  backupText: 'Sie öffnet sich mit dem Passwort, das vergeben wurde, als ihre account.key geschrieben wurde.',
  openedTitle: (files) => (files === 1 ? 'Eine Datei' : `${files} Dateien`),
  unreadable: (files) =>
    files === 1
      ? 'Eine Datei der Sicherung ist nicht lesbar. rescue.py nennt sie.'
      : `${files} Dateien der Sicherung sind nicht lesbar. rescue.py nennt sie.`,
  sealed:
    'Vor dem Speichern vom Besitzer verschlüsselt: Speichern Sie sie, und öffnen Sie sie hier mit ihrem eigenen ' +
    'Passwort oder Schlüssel.',
  tooLarge: (size) =>
    `Dieser Browser hält eine Datei bis zum Speichern im Arbeitsspeicher, und nimmt so höchstens ${size}. ` +
    'Öffnen Sie diese Seite in Chrome oder Edge auf einem Computer, oder nehmen Sie rescue.py.',
  noRoom: 'Dieser Browser hat keinen Platz für eine so große Datei. Nehmen Sie rescue.py neben dieser Seite.',
  savedHandedOver: 'Vollständig und geprüft. Ihr Browser speichert sie gerade.',
  footer: 'Diese Seite ist eine einzige Datei. Sie kennt keine Adresse, und ihre Regeln verbieten jede Verbindung.',
};

/** The words in the language of the others. */
export function openerWords({ language }: Pick<Words, 'language'>): typeof en {
  return language === 'de' ? de : en;
}
