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
    'Sealpin bewahrt Dateien verschlüsselt in IPFS auf, einem öffentlichen Netz. Der Schlüssel steht in dem Teil ' +
    'eines Links hinter dem #, den Browser an niemanden senden.',

  askedTitle: 'Jemand hat Ihnen Dateien geschickt',
  askedTitleBlob: 'Jemand hat Ihnen eine Datei geschickt',
  askedTitleContainer: 'Eine verschlüsselte Datei',
  opensOnce: (until) =>
    `Dieser Link lässt sich noch einmal öffnen, bis ${until}. Danach ist er verbraucht; öffnen ` +
    'Sie ihn also dort, wo Sie die Dateien speichern möchten.',
  opensTimes: (times, until) =>
    `Dieser Link lässt sich noch ${times}‑mal öffnen, bis ${until}. Jedes Öffnen zählt, auf jedem Gerät.`,
  opensAgain:
    'Hat dieser Tab den Link in den letzten 10 Minuten geöffnet, so öffnet er ihn noch einmal, ohne dass es zählt.',
  usedUpAsked:
    'Dieser Link ist jetzt verbraucht: Was gesendet wurde, lässt sich nur noch auf dieser Seite ' +
    'öffnen. Schließen Sie sie nicht und laden Sie sie nicht neu, bevor alles gespeichert ist.',
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
    'Das # dieses Links war in %23 verwandelt worden, wohl von einem Mailfilter. Der Dienst hat den Schlüssel ' +
    'also gesehen. Bitten Sie um einen neuen Link, falls das wichtig ist.',

  openedTitle: (files) => (files === 1 ? 'Eine Datei für Sie' : `${files} Dateien für Sie`),
  usedUpHere: 'Dieser Link ist jetzt verbraucht. Speichern Sie alles, bevor Sie diese Seite schließen oder neu laden.',
  leaveFiles:
    'Der Link dieser Seite ist verbraucht, und noch ist nicht alles gespeichert. Den anderen Link trotzdem öffnen?',
  from: (name) => `Von ${name}`,
  senderWords: 'in den eigenen Worten des Absenders',
  save: 'Speichern',
  saveAll: 'Alle speichern',
  checked:
    'Jede Datei wird beim Speichern geprüft: Sie bekommen genau das, was gesendet wurde, oder eine Fehlermeldung.',
  details: 'Einzelheiten',
  detailsText:
    'Jeder Block wird mit seiner Blob-ID verglichen, und jedes Stück wird vor dem Speichern auf Echtheit ' +
    'geprüft. Der Dienst sieht weder Namen noch Schlüssel.',
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
  savedHandedOver: 'Vollständig und geprüft. Ihr Browser speichert sie jetzt.',
  copyStays: (time) =>
    `Lassen Sie diese Seite noch ein wenig offen (${time}): Dann löscht sie ihre eigene Kopie ` +
    'der Datei von diesem Gerät.',
  again: 'Erneut speichern',
  retry: 'Erneut versuchen',
  stalled: 'Das Speichern geht dann dort weiter, wo es aufgehört hat.',
  notSaved: 'Nicht gespeichert, nichts wurde behalten.',
  notWhole: 'Nicht gespeichert.',
  announceProgress: (name, percent) => `${name}: ${percent}`,

  problemTitle: 'Das lässt sich nicht öffnen',
  startOver: 'Etwas anderes öffnen',
  usedUpTitle: 'Dieser Link ist verbraucht',
  usedUpText:
    'Er wurde so oft geöffnet, wie der Absender es erlaubt hat. Haben Sie ihn selbst geöffnet, sind die Dateien ' +
    'vielleicht noch in einem anderen Tab. Bitten Sie sonst um einen neuen Link.',
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
  invitationText: 'Er lädt dazu ein, Dateien zu senden. Zu Dateien führt er nicht.',
  noKeyTitle: 'Der Schlüssel fehlt',
  noKeyText:
    'Der Teil des Links hinter dem # fehlt. Haben Sie diese Seite neu geladen oder sind Sie zu ihr zurückgekehrt, ' +
    'öffnen Sie den Link aus Ihrer Nachricht noch einmal.',
  noKeyCounts: 'Hatten Sie die Dateien schon geöffnet, zählt das als weiteres Öffnen.',

  sendTitle: 'Dateien senden',
  sendText: 'Sie werden hier verschlüsselt, in dieser Seite. Dieser Dienst kann sie nicht lesen.',
  sendHome: 'Dateien senden',
  filesHome: 'Ihre Dateien',
  dropHere: 'Dateien hierher ziehen',
  chooseFiles: 'Dateien wählen',
  chooseFirst: 'Wählen Sie mindestens eine Datei.',
  chosen: (files) => (files === 1 ? 'Eine Datei gewählt.' : `${files} Dateien gewählt.`),
  chosenRenamed: (files) =>
    files === 1 ? 'Eine wird unter einem anderen Namen gesendet.' : `${files} werden unter anderen Namen gesendet.`,
  renamed: (characters) =>
    characters === ''
      ? 'Wird unter diesem Namen gesendet: Der ursprüngliche ist zu lang.'
      : 'Wird unter diesem Namen gesendet: Der ursprüngliche enthält Zeichen, die sich nicht senden ' +
        `lassen (${characters}).`,
  remove: 'Entfernen',
  removed: (name) => `${name} wurde entfernt.`,
  expires: 'Gültig',
  inTime: (time) => time,
  opens: 'Lässt sich öffnen',
  times: (times) => (times === 1 ? 'einmal' : `${times}‑mal`),
  whoOpens: 'Wer öffnen kann',
  withLink: 'Wer den Link hat',
  withPassword: 'Wer den Link und ein Passwort hat',
  withPasswordHint: 'Teilen Sie dem Empfänger das Passwort auf einem anderen Weg mit als den Link.',
  passwordMissing: 'Geben Sie ein Passwort ein, oder lassen Sie jeden mit dem Link öffnen.',
  withKeys: 'Wer den Link und einen privaten Schlüssel hat',
  publicKeys: 'Öffentliche Schlüssel',
  withKeysHint: 'Die öffentlichen Schlüssel der Empfänger, einer je Zeile. Sie beginnen mit age1.',
  keysMissing: 'Geben Sie einen öffentlichen Schlüssel ein, oder lassen Sie jeden mit dem Link öffnen.',
  note: 'Nachricht',
  yourName: 'Ihr Name',
  optional: 'freiwillig',
  send: 'Verschlüsseln und senden',
  back: 'Zurück',

  sendingTitle: 'Wird verschlüsselt und gesendet …',
  sendingText: 'Jede Datei wird hier verschlüsselt und verlässt diesen Rechner erst dann.',
  sentTitle: 'Ihr Link',
  sentText: 'Senden Sie ihn dem Empfänger.',
  sentAnyone: 'Wer ihn hat, kann die Dateien öffnen.',
  sentOnce: 'Kopieren Sie ihn jetzt: Er ist sonst nirgends gespeichert.',
  copy: 'Kopieren',
  copied: 'Kopiert',
  copyByHand: 'Er ist jetzt markiert; kopieren Sie ihn mit der Tastatur.',
  codeLabel: 'QR-Code des Links',
  opensUntil: (times, until) =>
    times === 1 ? `Lässt sich einmal öffnen, bis ${until}.` : `Lässt sich ${times}‑mal öffnen, bis ${until}.`,
  tellPassword: 'Teilen Sie das Passwort auf anderem Weg mit.',
  tellKeys: 'Er öffnet sich nur mit einem privaten Schlüssel des Empfängers.',
  change: 'Ändern',
  takeBack: 'Zurücknehmen',
  sendMore: 'Etwas anderes senden',
  changeTitle: 'Link ändern',
  changeText: 'Die Dateien bleiben, wie sie sind. Sie bekommen einen neuen Link, und der bisherige endet.',
  newLink: 'Link machen',
  takenTitle: 'Zurückgenommen',
  takenText: 'Der Link ist beendet, und der Schlüssel zu den Dateien wurde vernichtet.',
  takenDeleted: 'Die Dateien sind gelöscht.',
  takenUnopened: 'Niemand hatte ihn geöffnet.',
  takenOpened: (times) =>
    times === 1
      ? 'Er war einmal geöffnet worden; das lässt sich nicht rückgängig machen.'
      : `Er war ${times}‑mal geöffnet worden; das lässt sich nicht rückgängig machen.`,

  signingTitle: 'Ihr API-Schlüssel',
  signingSend: 'Dieser Dienst bewahrt Dateien für alle auf, die einen Schlüssel haben. Empfänger brauchen keinen.',
  signingFiles: 'Er zeigt, was sein Konto aufbewahrt.',
  apiKey: 'API-Schlüssel',
  apiKeyHint: 'Er bleibt im Speicher dieser Seite, bis Sie sie schließen.',
  goOn: 'Weiter',
  whereKeyTitle: 'Woher Sie einen bekommen',
  whereKeyText: 'Von denen, die diesen Dienst betreiben, oder mit der Befehlszeile:',
  scopesMissing: (scopes) => `Dieser Schlüssel darf das nicht: Ihm fehlt ${scopes}.`,

  guestText: (until, room) =>
    `Sie sind eingeladen, Dateien zu senden${until === undefined ? '' : `, bis ${until}`}` +
    `${room === '' ? '' : `: ${room}`}. ` +
    'Sie werden auf dieser Seite verschlüsselt, und dieser Dienst kann sie nicht lesen.',
  guestFiles: (files) => (files === 1 ? 'noch eine Datei' : `noch ${files} Dateien`),
  guestSize: (size) => `zusammen ${size}`,
  guestEnd: (until) => `Der Link endet mit Ihrer Einladung: ${until}.`,
  guestEndedTitle: 'Diese Einladung ist beendet',
  guestEndedText:
    'Sie wurde zurückgenommen oder ist abgelaufen. Ihre Links sind beendet, und was mit ihr gesendet wurde, ' +
    'ist gelöscht. Bitten Sie um eine neue.',
  linksTitle: 'Ihre Links',
  linksText:
    'Alle, die mit dieser Einladung erstellt wurden, die neuesten zuerst. Der Dienst weiß nicht, wohin sie führen.',
  linksNone: 'Mit dieser Einladung wurde kein Link erstellt, oder alle sind zurückgenommen.',
  linkAbout: (files, made) => (files === 1 ? `Eine Datei, ${made}` : `${files} Dateien, ${made}`),
  linkOpened: (opened, opens) => `${opened} von ${opens} Mal geöffnet`,
  linkUntil: (until) => `bis ${until}`,
  linkUsedUp: 'aufgebraucht',
  linkExpired: 'abgelaufen',
  linkPassword: 'mit Passwort',
  takingTitle: 'Diesen Link zurücknehmen?',
  takingText:
    'Er endet sofort, und seine Dateien werden gelöscht. Was schon geöffnet wurde, lässt sich nicht rückgängig machen.',
  linkTaken: (about) => `${about}: zurückgenommen.`,

  dropTitle: (name) => `Dateien für „${name}“`,
  dropText: 'Lesen können sie nur die Empfänger; weder dieser Dienst noch später Sie selbst.',
  handOver: 'Übergeben',
  handedTitle: 'Übergeben',
  handedText: (files, name) =>
    files === 1
      ? `Eine Datei für „${name}“ ist vollständig angekommen.`
      : `${files} Dateien für „${name}“ sind vollständig angekommen.`,
  handMore: 'Mehr übergeben',
  inboxGo: 'Dateien übergeben',
  closedTitle: 'Dieser Eingang ist geschlossen',
  closedText: 'Sein Besitzer hat ihn beendet, oder seine Zeit ist um. Bitten Sie um einen neuen Link.',
  unusableTitle: 'Es lässt sich nichts übergeben',

  storedTitle: 'Ihre Dateien',
  storedText: 'Die neuesten stehen oben.',
  storedNone: 'Es ist nichts gespeichert.',
  showMore: 'Mehr anzeigen',
  noName: (blobId: string) => `Ohne Namen (${blobId}…)`,
  sealedBefore: 'vom Absender verschlüsselt',
  sendOn: 'Weitersenden',
  sendOnTitle: 'Eine gespeicherte Datei senden',
  sendOnText: 'Nichts wird hochgeladen: Der Link enthält, was die Datei öffnet.',
  backToFiles: 'Zurück zu Ihren Dateien',
  delete: 'Löschen',
  keep: 'Behalten',
  deletingTitle: 'Diese Datei löschen?',
  deletingText: 'Ihr Schlüssel wird vernichtet, und ihre Links enden. Niemand kann sie mehr öffnen, auch Sie nicht.',
  deletingSealedText:
    'Ihre Links enden, und dieser Dienst vergisst sie. Was andere geholt haben, bleibt verschlüsselt.',
  deleted: (name) => `${name} ist gelöscht.`,
  keyDestroyed: 'Der Schlüssel ist vernichtet.',

  errors: {
    wrong_password: 'Dieses Passwort öffnet es nicht. Sie können es beliebig oft versuchen.',
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
      'Dieser Browser hat keinen Platz für eine so große Datei. Nehmen Sie ein aktuelles Chrome oder Firefox auf ' +
      'einem Rechner, oder die Befehlszeile: sealpin receive.',
    cut_off:
      'Der Browser hat den Download vorzeitig beendet. Löschen Sie, was in Ihren Downloads ' +
      'liegt: Es ist nicht die ganze Datei.',
    disk_full: 'Auf diesem Gerät ist nicht genug Platz.',
    aborted: 'Abgebrochen. Nichts wurde behalten.',
    other: 'In dieser Seite ging etwas schief. Nichts wurde behalten.',
    not_sent: 'Abgebrochen. Es gibt keinen Link, also kann niemand öffnen, was schon gesendet war.',
    api_key: 'Dieser API-Schlüssel gehört nicht zu diesem Dienst, oder er ist beendet.',
    scope: 'Dieser API-Schlüssel darf das nicht.',
    quota: 'Dafür ist kein Platz: Die Grenze dieses Kontos oder Links ist erreicht.',
    too_large: 'Eine Datei ist größer, als dieser Dienst annimmt.',
    name: 'Der Name einer Datei hat Zeichen, die sich nicht senden lassen. Benennen Sie sie um.',
    too_much: 'Das sind zu viele Dateien, oder die Nachricht ist zu lang. Senden Sie weniger auf einmal.',
    password: 'Dieses Passwort geht nicht. Geben Sie eines ohne unsichtbare Zeichen ein.',
    public_key: 'Das ist kein öffentlicher Schlüssel. Die, für die verschlüsselt wird, beginnen mit age1.',
    terms: 'Das erlaubt der Dienst nicht. Wählen Sie weniger Zeit oder weniger Öffnungen.',
    sealed_before: 'Sie wurde vorher verschlüsselt, deshalb kann diese Seite keinen Link zu ihr machen.',
    not_sent_other: 'Etwas ging schief, und es gibt keinen Link. Versuchen Sie es noch einmal.',
  },

  footerHash: 'Seiten',
  footerText: 'In Ihrem Browser ver- und entschlüsselt. Keine Cookies, keine Verfolgung.',
};
