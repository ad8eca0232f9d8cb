/** German. */
import type { Words } from './en.ts';

export const de: Words = {
  language: 'de',
  direction: 'ltr',

  tagline: 'Dateien, die nur lesen kann, wer sie lesen soll',
  busy: 'Einen Moment …',

  homeTitle: 'Öffnen, was Sie bekommen haben',
  homeText:
    'Fügen Sie den Link oder die Blob-ID aus Ihrer Nachricht ein. Alles wird hier entschlüsselt, in dieser Seite.',
  linkLabel: 'Link oder Blob-ID',
  open: 'Öffnen',
  or: 'oder',
  chooseFile: 'Verschlüsselte Datei wählen',
  chooseFileHint:
    'Eine .age- oder Sealpin-Datei von diesem Rechner, oder ziehen Sie sie hierher. Sie bleibt auf diesem Rechner.',
  whatTitle: 'Was das ist',
  whatText:
    'Sealpin bewahrt Dateien verschlüsselt in IPFS auf, einem öffentlichen Netz. Der Schlüssel steht in dem Teil eines Links hinter dem #, den Browser an niemanden senden.',

  askedTitle: 'Jemand hat Ihnen Dateien geschickt',
  askedTitleBlob: 'Jemand hat Ihnen eine Datei geschickt',
  askedTitleContainer: 'Eine verschlüsselte Datei',
  opensOnce: (until) => `Dieser Link lässt sich noch einmal öffnen, bis ${until}.`,
  opensTimes: (times, until) => `Dieser Link lässt sich noch ${times}-mal öffnen, bis ${until}.`,
  blobText: 'Sie wird hier geholt und entschlüsselt, sobald Sie sie öffnen.',
  containerText: 'Sie wird hier entschlüsselt und verlässt diesen Rechner nicht.',
  password: 'Passwort',
  passwordHint: 'Der Absender hat es Ihnen auf anderem Weg mitgeteilt.',
  passwordHintContainer: 'Das, mit dem sie verschlüsselt wurde.',
  showPassword: 'Passwort anzeigen',
  keyFile: 'Privater Schlüssel',
  keyFileHint: 'Die Datei mit dem Schlüssel, für den verschlüsselt wurde. Sie bleibt auf diesem Rechner.',
  opening: 'Wird geöffnet …',
  exposed:
    'Das # dieses Links war in %23 verwandelt worden, wohl von einem Mailfilter. Der Dienst hat den Schlüssel also gesehen. Bitten Sie um einen neuen Link, falls das wichtig ist.',

  openedTitle: (files) => (files === 1 ? 'Eine Datei für Sie' : `${files} Dateien für Sie`),
  from: (name) => `Von ${name}`,
  senderWords: 'in den eigenen Worten des Absenders',
  save: 'Speichern',
  saveAll: 'Alle speichern',
  checked: 'Geprüft: Was Sie speichern, ist genau das, was gesendet wurde.',
  details: 'Einzelheiten',
  detailsText:
    'Jeder Block wird mit seiner Blob-ID verglichen, und jedes Stück wird vor dem Speichern auf Echtheit geprüft. Der Dienst sieht weder Namen noch Schlüssel.',
  blobId: 'Blob-ID',

  saving: 'Wird gespeichert …',
  progress: (done, all) => `${done} von ${all}`,
  progressUnknown: (done) => `${done} bisher`,
  timeLeft: (time) => `noch ${time}`,
  keepOpen: 'Lassen Sie diese Seite offen.',
  cancel: 'Abbrechen',
  cancelled: 'Abgebrochen. Nichts wurde behalten.',
  savedPicked: 'Gespeichert und vollständig.',
  savedDownloads: 'Vollständig. Sie liegt bei Ihren Downloads.',
  again: 'Noch einmal speichern',
  retry: 'Noch einmal versuchen',
  notSaved: 'Nicht gespeichert, nichts wurde behalten.',
  announceSaved: (name) => `${name} ist gespeichert und vollständig.`,
  announceProgress: (name, percent) => `${name}: ${percent}`,

  problemTitle: 'Das lässt sich nicht öffnen',
  startOver: 'Etwas anderes öffnen',
  usedUpTitle: 'Dieser Link ist verbraucht',
  usedUpText: 'Er wurde so oft geöffnet, wie der Absender es erlaubt hat. Bitten Sie um einen neuen.',
  expiredTitle: 'Dieser Link ist abgelaufen',
  expiredText: 'Der Schlüssel zu den Dateien wurde vernichtet. Bitten Sie um einen neuen Link.',
  revokedTitle: 'Dieser Link wurde zurückgenommen',
  revokedText: 'Der Absender hat ihn beendet. Der Schlüssel zu den Dateien wurde vernichtet.',
  goneTitle: 'Hinter diesem Link ist nichts',
  goneText: 'Er ist beendet, oder es gab ihn hier nie. Bitten Sie um einen neuen.',
  incompleteTitle: 'Dieser Link ist unvollständig',
  incompleteText:
    'Ein Teil ging unterwegs verloren. Kopieren Sie ihn ganz aus der Nachricht, von https:// bis zum letzten Zeichen.',
  notALinkTitle: 'Das ist kein Link von Sealpin',
  notALinkText: 'Ein Link sieht aus wie https://…/s#1… oder https://…/b#bafk…, eine Blob-ID wie bafkrei… .',
  elsewhereTitle: 'Dieser Link gehört zu einem anderen Dienst',
  elsewhereText: (host) => `Er wird bei ${host} geöffnet.`,
  elsewhereGo: (host) => `Weiter zu ${host}`,
  inboxTitle: 'Dieser Link ist zum Senden',
  inboxText: 'Er ist die Adresse eines Eingangs: Er nimmt Dateien an und gibt keine heraus.',
  noKeyTitle: 'Der Schlüssel fehlt',
  noKeyText:
    'Die Seite wurde ohne den Teil des Links hinter dem # geladen. Öffnen Sie den Link aus Ihrer Nachricht noch einmal.',

  errors: {
    wrong_password: 'Dieses Passwort öffnet es nicht. Ein neuer Versuch verbraucht den Link nicht.',
    no_key: 'Dieser Schlüssel öffnet es nicht.',
    not_encrypted: 'Diese Daten sind nicht verschlüsselt, weder von Sealpin noch von age.',
    needs_link: 'Nur der Link, der dafür gemacht wurde, öffnet es.',
    damaged: 'Die Daten sind beschädigt oder nicht, was gesendet wurde. Nichts davon wurde behalten.',
    unreachable: 'Der Dienst ist nicht erreichbar. Prüfen Sie Ihre Verbindung und versuchen Sie es noch einmal.',
    busy: 'Der Dienst ist gerade ausgelastet. Versuchen Sie es gleich noch einmal.',
    absent: 'Die Datei ist nicht mehr da.',
    unsupported: 'Das wurde mit einer neueren Version von Sealpin gemacht.',
    key_invalid: 'Das ist kein privater Schlüssel, der solche Dateien öffnet.',
    no_room:
      'Dieser Browser hat keinen Platz für eine so große Datei. Nehmen Sie ein aktuelles Chrome oder Firefox auf einem Rechner, oder die Befehlszeile: sealpin receive.',
    disk_full: 'Auf diesem Gerät ist nicht genug Platz.',
    aborted: 'Abgebrochen. Nichts wurde behalten.',
    other: 'In dieser Seite ging etwas schief. Nichts wurde behalten.',
  },

  footerHash: 'Seiten',
  footerText: 'In Ihrem Browser entschlüsselt. Keine Cookies, keine Verfolgung.',
};
