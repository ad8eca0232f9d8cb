/** German. */
import type { Words } from './en.ts';

export const de: Words = {
  language: 'de',
  direction: 'ltr',

  nav: 'Seiten',
  navSend: 'Senden',
  navOpen: 'Öffnen',
  navFiles: 'Dateien',
  navInbox: 'Eingang',
  navLinks: 'Links',
  dropNow: 'Einfach loslassen',
  busy: 'Einen Moment …',

  homeTitle: 'Öffnen, was Sie bekommen haben',
  homeText:
    'Links öffnen sich mit einem Klick. Falls Ihrer das nicht tut, fügen Sie ihn hier ein. Alles wird in Ihrem ' +
    'Browser entschlüsselt.',
  linkLabel: 'Link oder Blob-ID',
  open: 'Öffnen',
  or: 'oder',
  chooseFile: 'Verschlüsselte Datei wählen',
  chooseFileHint: 'Ziehen Sie eine .age- oder Sealpin-Datei hierher. Sie bleibt auf diesem Gerät.',
  assurance: 'Entschlüsselt wird hier, auf Ihrem Gerät. Ohne Konto, ohne Installation.',
  heroTitle: 'Dateien senden, die nur lesen kann, wer sie lesen soll',
  whatTitle: 'So funktioniert es',
  stepSeal: 'Hier verschlüsselt.',
  stepSealText: 'Auf diesem Gerät, bevor etwas es verlässt.',
  stepLink: 'Ein Link.',
  stepLinkText: 'Der Schlüssel steht in seinem Teil hinter dem #, den Ihr Browser nie mitsendet.',
  stepEnd: 'Er endet.',
  stepEndText: 'Ein Link läuft ab, lässt sich nur so oft öffnen, wie Sie es erlauben, und kann zurückgenommen werden.',
  whoSends: 'Wer kann senden?',
  whoSendsText:
    'Wer einen API-Schlüssel dieses Dienstes oder eine Einladung hat. Zum Empfangen braucht es beides nicht.',
  gotLink: 'Sie haben einen Link oder eine verschlüsselte Datei? Hier öffnen.',
  askedTitle: 'Jemand hat Ihnen Dateien geschickt',
  askedTitleBlob: 'Jemand hat Ihnen eine Datei geschickt',
  askedTitleContainer: 'Eine verschlüsselte Datei',
  opensOnce: (until) =>
    `Dieser Link lässt sich einmal öffnen, bis zum ${until}. Danach ist er verbraucht; öffnen ` +
    'Sie ihn also dort, wo Sie die Dateien speichern möchten.',
  opensTimes: (times, until) =>
    `Dieser Link lässt sich noch ${times}‑mal öffnen, bis zum ${until}. Jedes Öffnen zählt, auf jedem Gerät.`,
  opensAgain:
    'Hat dieser Tab den Link in den letzten 10 Minuten geöffnet, so öffnet er ihn noch einmal, ohne dass es zählt.',
  usedUpAsked:
    'Dieser Link ist jetzt verbraucht: Was gesendet wurde, lässt sich nur noch auf dieser Seite ' +
    'öffnen. Schließen Sie sie nicht und laden Sie sie nicht neu, bevor alles gespeichert ist.',
  blobText: 'Sie wird hier geholt und entschlüsselt, sobald Sie sie öffnen.',
  containerText: 'Sie wird hier entschlüsselt und verlässt dieses Gerät nicht.',
  password: 'Passwort',
  passwordHint: 'Der Absender hat es Ihnen getrennt vom Link gegeben.',
  passwordHintContainer: 'Das, mit dem sie verschlüsselt wurde.',
  showPassword: 'Passwort anzeigen',
  keyFileHint: 'Die Datei mit dem Schlüssel, für den verschlüsselt wurde. Sie bleibt auf diesem Gerät.',
  opening: 'Wird geöffnet …',
  exposed:
    'Das # dieses Links war in %23 verwandelt worden, wohl von einem Mailfilter. Der Dienst hat den Schlüssel ' +
    'also gesehen. Bitten Sie um einen neuen Link, falls das wichtig ist.',
  openedTitle: (files) => (files === 1 ? 'Eine Datei für Sie' : `${files} Dateien für Sie`),
  openedMessage: 'Eine Nachricht für Sie',
  look: 'Zeigen',
  lookAway: 'Verbergen',
  notShown: 'Das lässt sich hier nicht zeigen. Sie können es speichern.',
  imageNamed: (name) => `Bild: ${name}`,
  usedUpHere: 'Dieser Link ist jetzt verbraucht. Speichern Sie alles, bevor Sie diese Seite schließen oder neu laden.',
  leavePage: 'Was diese Seite tut oder noch nicht gespeichert oder kopiert ist, geht verloren. Trotzdem fortfahren?',
  fromSender: (name) => `Von ${name}`,
  senderWords: 'in den eigenen Worten des Absenders',
  signedBy: (who) =>
    `Unterschrieben mit dem Schlüssel ${who}. Haben Sie diese sechs Wörter mit dem Absender verglichen, ` +
    'am Telefon oder persönlich, dann wissen Sie, von wem es kommt.',
  signedKnown: (name) => `Unterschrieben von ${name}; die sechs Wörter haben Sie verglichen.`,
  signedOther: (name) => `Das ist nicht der Schlüssel, unter dem Sie ${name} kennen.`,
  know: 'Ich habe sie verglichen',
  knowName: 'Wessen Wörter sind es?',
  knowHint: 'Dieser Browser zeigt dann den Namen statt der Wörter. Unter „Links“ lässt er sich vergessen.',
  keepName: 'Merken',
  nameTaken: (name) =>
    `Sie kennen ${name} unter einem anderen Schlüssel. Wurde der ersetzt, drücken Sie noch einmal auf „Merken“.`,
  signature: {
    wrong: (who) =>
      `Gilt als nicht unterschrieben: Die Unterschrift ist nicht die von ${who}. ` +
      'Jemand hat etwas geändert oder gibt sich als jemand anderes aus.',
    elsewhere: (who) =>
      `Gilt als nicht unterschrieben: ${who} hat einen anderen Link unterschrieben, und jemand gab es weiter.`,
    others: (who) =>
      `Gilt als nicht unterschrieben: ${who} unterschrieb es für andere Empfänger, und jemand gab es weiter.`,
    unchecked: (who) => `Unterschrieben mit dem Schlüssel ${who}, was dieser Browser nicht prüfen kann.`,
  },
  save: 'Speichern',
  saveAll: 'Alle speichern',
  saveToFolder: 'In einem Ordner speichern …',
  zipName: 'Dateien.zip',
  allTogether: (files) =>
    files === 2 ? 'Beide Dateien, als eine ZIP-Datei' : `Alle ${files} Dateien, als eine ZIP-Datei`,
  folderInOne: 'ein Ordner in einer Datei; entpacken Sie sie nach dem Speichern',
  filesChecked:
    'Jede Datei wird beim Speichern geprüft: Sie bekommen genau das, was gesendet wurde, oder eine Fehlermeldung.',
  details: 'Einzelheiten',
  detailsText:
    'Jeder Block wird mit seiner Blob-ID verglichen, und jedes Stück wird vor dem Speichern auf Echtheit ' +
    'geprüft. Diese Seite sendet dem Dienst weder Namen noch Schlüssel.',
  blobId: 'Blob-ID',
  saving: 'Wird gespeichert …',
  progress: (done, all) => `${done} von ${all}`,
  progressUnknown: (done) => `${done} bisher`,
  speed: (size) => `${size}/s`,
  waitsForLine: 'Warten auf die Verbindung …',
  timeLeft: (time) => `noch ${time}`,
  cancel: 'Abbrechen',
  savedPicked: 'Gespeichert und vollständig.',
  savedDownloads: 'Vollständig. Sie liegt bei Ihren Downloads.',
  savedHandedOver: 'Vollständig und geprüft. Ihr Browser speichert sie jetzt.',
  copyStays: (time) =>
    `Lassen Sie diese Seite noch ein wenig offen (${time}): Dann löscht sie ihre eigene Kopie ` +
    'der Datei von diesem Gerät.',
  again: 'Erneut speichern',
  retry: 'Erneut versuchen',
  savingStalled: 'Das Speichern geht dann dort weiter, wo es aufgehört hat.',
  notSaved: 'Nicht gespeichert.',
  problemTitle: 'Das lässt sich nicht öffnen',
  startOver: 'Etwas anderes öffnen',
  usedUpTitle: 'Dieser Link ist verbraucht',
  usedUpText:
    'Er wurde so oft geöffnet, wie der Absender es erlaubt hat. Haben Sie ihn selbst geöffnet, sind die Dateien ' +
    'vielleicht noch in einem anderen Tab. Bitten Sie sonst um einen neuen Link.',
  expiredTitle: 'Dieser Link ist abgelaufen',
  expiredText: 'Sein Schlüssel zu den Dateien wurde vernichtet. Bitten Sie um einen neuen Link.',
  revokedTitle: 'Dieser Link wurde zurückgenommen',
  revokedText: 'Der Absender hat ihn beendet, und sein Schlüssel zu den Dateien wurde vernichtet.',
  goneTitle: 'Dieser Link führt ins Leere',
  goneText: 'Er ist abgelaufen, oder es gab ihn hier nie. Bitten Sie um einen neuen.',
  incompleteTitle: 'Dieser Link ist unvollständig oder falsch geschrieben',
  incompleteText:
    'Ein Teil ging unterwegs verloren oder wurde verändert. Kopieren Sie ihn ganz aus der Nachricht, von https:// ' +
    'bis zum letzten Zeichen.',
  notALinkTitle: 'Das ist kein Link von Sealpin',
  notALinkText: 'Ein Link sieht aus wie https://…/s#1… oder https://…/b#bafk…, eine Blob-ID wie bafkrei… .',
  elsewhereTitle: 'Dieser Link gehört zu einem anderen Dienst',
  elsewhereText: (host) => `Er wird bei ${host} geöffnet.`,
  elsewhereGo: (host) => `Weiter zu ${host}`,
  inboxTitle: 'Dieser Link ist zum Senden',
  inboxText: 'Er ist die Adresse eines Posteingangs: Er nimmt Dateien an und gibt keine heraus.',
  invitationText: 'Er lädt dazu ein, Dateien zu senden. Zu Dateien führt er nicht.',
  noKeyTitle: 'Der Schlüssel fehlt',
  noKeyText:
    'Der Teil des Links hinter dem # fehlt. Haben Sie diese Seite neu geladen oder sind Sie zu ihr zurückgekehrt, ' +
    'öffnen Sie den Link aus Ihrer Nachricht noch einmal.',
  noKeyCounts: 'Hatten Sie die Dateien schon geöffnet, zählt das als weiteres Öffnen.',
  sendText: 'Dateien werden hier verschlüsselt, in Ihrem Browser. Dieser Dienst kann sie nicht lesen.',
  linksOff: 'Der Betreiber dieses Dienstes hat Links abgeschaltet: Von hier lässt sich nichts senden.',
  sendFiles: 'Dateien senden',
  dropHere: 'Dateien oder Ordner hierher ziehen',
  chooseFiles: 'Dateien wählen',
  chooseFolder: 'Ordner wählen',
  leftOut: (paths) => `Ausgelassen, leer oder nicht lesbar: ${paths}`,
  addFiles: 'Dateien hinzufügen',
  filesOf: (files, size) => (files === 1 ? `1 Datei · ${size}` : `${files} Dateien · ${size}`),
  folderOf: (files) => (files === 1 ? 'ein Ordner mit 1 Datei, als ZIP' : `ein Ordner mit ${files} Dateien, als ZIP`),
  fileLimit: (size) => `bis ${size} je Datei`,
  inboxLimits: (limits) => `Platz für ${limits}`,
  chooseFirst: 'Wählen Sie eine Datei, oder schreiben Sie eine Nachricht.',
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
  expires: 'Gültig für',
  inTime: (time) => time,
  expiresIn: (time) => `Gültig für ${time}`,
  opens: 'Lässt sich öffnen',
  opensCount: (times) => (times === 1 ? 'einmal zu öffnen' : `${times}‑mal zu öffnen`),
  times: (times) => (times === 1 ? 'einmal' : `${times}‑mal`),
  whoOpens: 'Wer ihn öffnen kann',
  withLink: 'alle, die den Link haben',
  withPassword: 'alle, die den Link und ein Passwort haben',
  withPasswordHint: 'Schicken Sie das Passwort getrennt, zum Beispiel telefonisch.',
  passwordMissing: 'Geben Sie ein Passwort ein, oder lassen Sie jeden mit dem Link öffnen.',
  withKeys: 'alle, die den Link und einen privaten Schlüssel haben',
  publicKeys: 'Öffentliche Schlüssel',
  withKeysHint:
    'Die öffentlichen Schlüssel der Empfänger, einer je Zeile. Ein öffentlicher Schlüssel beginnt mit age1.',
  keysMissing: 'Geben Sie einen öffentlichen Schlüssel ein, oder lassen Sie jeden mit dem Link öffnen.',
  note: 'Nachricht',
  noteHint: 'Sie wird ebenfalls verschlüsselt und lässt sich auch ohne Datei senden.',
  noteTooLong: (bytes, most) =>
    `Die Nachricht hat ${bytes} Bytes und darf ${most} haben. Kürzen Sie sie, oder senden Sie sie als Datei.`,
  yourName: 'Ihr Name',
  optional: 'optional',
  send: 'Verschlüsseln und senden',
  back: 'Zurück',

  sendingTitle: 'Wird verschlüsselt und gesendet …',
  sendingText: 'Jede Datei wird hier verschlüsselt und verlässt dieses Gerät erst dann. Lassen Sie diese Seite offen.',
  fileOf: (index, count, name) => `${index} von ${count} · ${name}`,
  sentTitle: 'Ihr Link ist fertig',
  sentText: 'Senden Sie ihn dem Empfänger.',
  sentAnyone: 'Wer ihn hat, kann öffnen, was Sie gesendet haben.',
  sentOnce: 'Kopieren Sie ihn jetzt: Er ist sonst nirgends gespeichert.',
  copy: 'Kopieren',
  passOn: 'Teilen …',
  copied: 'Kopiert',
  copyByHand: 'Kopieren Sie mit der Tastatur.',
  codeLabel: 'QR-Code des Links',
  opensUntil: (times, until) =>
    times === 1 ? `Lässt sich einmal öffnen, bis zum ${until}.` : `Lässt sich ${times}‑mal öffnen, bis zum ${until}.`,
  tellKeys: 'Er öffnet sich nur mit einem privaten Schlüssel des Empfängers.',
  change: 'Ändern',
  takeBack: 'Zurücknehmen',
  sendMore: 'Etwas anderes senden',
  newLink: 'Link erstellen',
  takenTitle: 'Zurückgenommen',
  takenText: 'Der Link gilt nicht mehr, und sein Schlüssel zu den Dateien wurde vernichtet.',
  takenDeleted: 'Die Dateien sind gelöscht.',
  takenUnopened: 'Niemand hatte ihn geöffnet.',
  takenOpened: (times) =>
    times === 1
      ? 'Er war einmal geöffnet worden; das lässt sich nicht rückgängig machen.'
      : `Er war ${times}‑mal geöffnet worden; das lässt sich nicht rückgängig machen.`,

  signingTitle: 'Ihr API-Schlüssel',
  signingSend: 'Damit können Sie senden. Empfänger brauchen keinen. Eingeladen? Öffnen Sie Ihre Einladung.',
  signingFiles: 'Er zeigt, was sein Konto aufbewahrt.',
  signingInbox: 'Er findet, was in den Posteingängen seines Kontos angekommen ist.',
  apiKey: 'API-Schlüssel',
  apiKeyHint: 'Er bleibt im Speicher dieser Seite, bis Sie sie schließen.',
  goOn: 'Weiter',
  whereKeyTitle: 'Woher Sie einen bekommen',
  whereKeyText: 'Von denen, die diesen Dienst betreiben, oder mit der Befehlszeile:',
  scopesMissing: (scopes) => `Dieser Schlüssel darf das nicht: Ihm fehlt ${scopes}.`,

  guestText: (until, room) =>
    `Sie sind eingeladen, Dateien zu senden${until === undefined ? '' : `, bis zum ${until}`}` +
    `. ${room === '' ? '' : `Es ist Platz für ${room}. `}` +
    'Sie werden in Ihrem Browser verschlüsselt, und dieser Dienst kann sie nicht lesen.',
  guestFiles: (files) => (files === 1 ? 'noch eine Datei' : `noch ${files} Dateien`),
  guestSize: (size) => `zusammen ${size}`,
  guestEnd: (until) => `Der Link endet mit Ihrer Einladung, am ${until}.`,
  guestEndedTitle: 'Diese Einladung gilt nicht mehr',
  guestEndedText:
    'Sie wurde zurückgenommen oder ist abgelaufen. Ihre Links gelten nicht mehr, und was mit ihr gesendet wurde, ' +
    'ist gelöscht. Bitten Sie um eine neue.',
  linksTitle: 'Ihre Links',
  linksText: 'Mit dieser Einladung erstellt, die neuesten zuerst. Der Dienst weiß nicht, wohin sie führen.',
  linksNone: 'Mit dieser Einladung wurde kein Link erstellt, oder alle sind zurückgenommen.',
  linkAbout: (files, made) => (files === 1 ? `Eine Datei, ${made}` : `${files} Dateien, ${made}`),
  linkOpened: (opened, opens) => `${opened} von ${opens} Mal geöffnet`,
  linkUntil: (until) => `bis zum ${until}`,
  linkUsedUp: 'verbraucht',
  linkExpired: 'abgelaufen',
  linkPassword: 'mit Passwort',
  takingTitle: 'Diesen Link zurücknehmen?',
  takingText:
    'Er endet sofort, und seine Dateien werden gelöscht. Was schon geöffnet wurde, lässt sich nicht rückgängig machen.',
  linkTaken: (about) => `${about}: zurückgenommen.`,

  keptTitle: 'Meine Links',
  keptText:
    'Das merkt sich dieser Browser von Ihren Links: Namen, Größen und Zeiten. ' +
    'Den Link selbst haben Sie nur einmal gesehen.',
  keptNone:
    'Dieser Browser merkt sich noch keine Links. Setzen Sie dafür das Häkchen unter einem neuen Link. ' +
    'Eingeladen? Öffnen Sie Ihre Einladung noch einmal: Sie zeigt, was Sie gesendet haben.',
  keepLink: 'In diesem Browser unter „Meine Links“ merken',
  keepLinkHint: 'Namen, Größen und Zeiten, um ihn später zu ändern oder zurückzunehmen. Nicht den Link selbst.',
  keptNow: 'Dieser Browser merkt ihn sich jetzt. Den Link selbst sehen Sie nur hier.',
  keepsNothing: 'Dieser Browser lässt die Seite nichts speichern, es hat sich also nichts geändert.',
  keptMore: (names, more) => `${names} und ${more} weitere`,
  keptActive: (times, until) => `Lässt sich noch ${times === 1 ? 'einmal' : `${times}‑mal`} öffnen, bis zum ${until}.`,
  keptUnknown: 'Der Dienst kennt diesen Link nicht mehr.',
  keptUnasked: 'Der Dienst war nicht zu erreichen. Wie es um den Link steht, ist nicht bekannt.',
  keptEnded: 'Dieser Link gilt nicht mehr und lässt sich nicht ändern.',
  seenAt: (time) => `Stand: ${time}.`,
  forgetOne: 'Aus der Liste entfernen',
  forgetAll: 'Alles hier vergessen',
  forgettingTitle: 'Alles hier vergessen?',
  forgettingText:
    'Dieser Browser merkt sich dann nichts mehr von Ihren Links, keinen API-Schlüssel und keine Absender. ' +
    'Die Links bleiben, wie sie sind, und lassen sich weiter öffnen.',
  forgotten: 'Dieser Browser hat alles vergessen, was er sich hier gemerkt hatte.',
  takingKeptText: 'Er endet sofort. Was bereits geöffnet wurde, lässt sich nicht rückgängig machen.',
  changingTitle: 'Diesen Link ändern',
  asBefore: 'wie bisher',
  opensInAll: 'Öffnungen insgesamt',
  opensInAllHint: 'Bereits erfolgte Öffnungen zählen mit.',
  changeLink: 'Ändern',
  linkChanged: (about) => `${about}: geändert.`,
  keyTitle: 'Dafür ist Ihr Schlüssel nötig',
  keyText: 'Geben Sie Ihren API-Schlüssel ein, oder den Link der Einladung, mit der Sie ihn verschickt haben.',
  keyOther: 'Dieser Link lässt sich noch öffnen, gehört aber nicht zu diesem Schlüssel. Geben Sie einen anderen ein.',
  keyLabel: 'API-Schlüssel oder Einladung',
  keepKey: 'In diesem Browser merken',
  keepKeyRisk:
    'Wer diesen Browser benutzt oder in ihn eindringt, kann dann mit Ihren Dateien ' +
    'alles tun, was der Schlüssel erlaubt, bis Sie hier alles vergessen oder der Schlüssel widerrufen wird.',
  keptSigners: (names) => `Absender, deren Wörter Sie verglichen haben: ${names}.`,
  keyKept: 'Dieser Browser hat sich einen Schlüssel von Ihnen gemerkt. Wer diesen Browser benutzt, kann ihn verwenden.',

  dropTitle: (name) => `Dateien für „${name}“`,
  dropText: 'Nur der Besitzer dieses Posteingangs kann sie lesen; weder dieser Dienst noch später Sie selbst.',
  handedTitle: 'Gesendet',
  handedText: (files, name) =>
    files === 1
      ? `Ihre Datei für „${name}“ ist vollständig angekommen.`
      : `Ihre ${files} Dateien für „${name}“ sind vollständig angekommen.`,
  handMore: 'Mehr senden',
  closedTitle: 'Dieser Posteingang ist geschlossen',
  closedText: 'Sein Besitzer hat ihn geschlossen, oder seine Zeit ist um. Bitten Sie um einen neuen Link.',
  unusableTitle: 'Hier lässt sich gerade nichts senden',

  inboxReadTitle: 'Ihr Posteingang',
  inboxKeyText: 'Ihr privater Schlüssel öffnet hier in Ihrem Browser, was man Ihnen gesendet hat.',
  inboxKeyHint: 'Ziehen Sie die Datei private.key hierher: „sealpin doctor“ nennt ihren Ordner. Sie wird nie gesendet.',
  chooseKey: 'Privaten Schlüssel wählen',
  deliveriesTitle: 'Was man Ihnen gesendet hat',
  deliveriesNone:
    'Noch ist nichts da. Einen Link, mit dem andere Ihnen Dateien senden, erstellt „sealpin inbox create“.',
  deliveryForeign: 'Für einen anderen Schlüssel verschlüsselt',
  deliveryGone: 'Nicht mehr gespeichert',
  deliveryUnnamed: 'Ohne Absendernamen',

  storedTitle: 'Ihre Dateien',
  newestFirst: 'Die neuesten stehen oben.',
  storedNone: 'Es ist nichts gespeichert.',
  showMore: 'Mehr anzeigen',
  storedAsIs: 'unverändert gespeichert',
  storedDelivery: 'Sendung an einen Posteingang',
  namesTitle: 'Versiegelte Namen anzeigen',
  namesHint:
    'Die Datei private.key Ihres Computers öffnet Namen, die für sie versiegelt sind. Sie bleibt auf dieser Seite.',
  nameForeign: 'der Name gehört nicht zu dieser Datei',
  sendOn: 'Weiterleiten',
  sendOnTitle: 'Eine gespeicherte Datei senden',
  sendOnText: 'Nichts wird hochgeladen: Der Link enthält, was die Datei öffnet.',
  backToFiles: 'Zurück zu Ihren Dateien',
  delete: 'Löschen',
  keep: 'Behalten',
  deletingTitle: 'Diese Datei löschen?',
  deletingText: 'Ihr Schlüssel wird vernichtet, und ihre Links enden. Niemand kann sie mehr öffnen, auch Sie nicht.',
  deletingPlainText: 'Ihre Links enden, und dieser Dienst vergisst sie. Was schon geöffnet wurde, bleibt geöffnet.',
  deletingDeliveryTitle: 'Diese Sendung löschen?',
  deletingDeliveryText: 'Die Dateien, die mit ihr kamen, werden auch gelöscht, soweit dieser Dienst sie kennt.',
  deleted: (name) => `${name} ist gelöscht.`,
  keyDestroyed: 'Der Schlüssel ist vernichtet.',

  errors: {
    wrong_password: 'Das Passwort stimmt nicht. Sie können es beliebig oft versuchen.',
    no_key: 'Dieser Schlüssel öffnet es nicht.',
    not_encrypted: 'Diese Daten sind nicht verschlüsselt, weder von Sealpin noch von age.',
    needs_link: 'Das öffnet nur der Link, der dafür erstellt wurde.',
    damaged:
      'Die Daten sind beschädigt oder nicht, was gesendet wurde. Verwenden Sie nicht, was Ihr Browser davon ' +
      'vielleicht behalten hat.',
    unreachable: 'Der Dienst ist nicht erreichbar. Prüfen Sie Ihre Verbindung und versuchen Sie es noch einmal.',
    busy: 'Der Dienst ist gerade ausgelastet. Versuchen Sie es gleich noch einmal.',
    absent: 'Die Datei ist nicht mehr da.',
    lost: 'Der Dienst hat diese Datei verloren. Bitten Sie darum, dass sie noch einmal gesendet wird.',
    denied: 'Wer diesen Dienst betreibt, hat diese Datei gesperrt.',
    unsupported: 'Das wurde mit einer neueren Version von Sealpin erstellt.',
    key_invalid: 'Das ist kein privater Schlüssel, der solche Dateien öffnet.',
    no_room:
      'Dieser Browser hat keinen Platz für eine so große Datei. Nehmen Sie ein aktuelles Chrome oder Firefox auf ' +
      'einem Rechner, oder die Befehlszeile: sealpin receive.',
    cut_off:
      'Der Browser hat den Download vorzeitig beendet. Löschen Sie, was in Ihren Downloads ' +
      'liegt: Es ist nicht die ganze Datei.',
    disk_full: 'Auf diesem Gerät ist nicht genug Platz.',
    aborted: 'Abgebrochen. Es wurde nichts gespeichert.',
    other: 'Auf dieser Seite ging etwas schief. Versuchen Sie es noch einmal.',
    not_sent: 'Abgebrochen. Was schon gesendet war, kann niemand öffnen.',
    api_key: 'Dieser Schlüssel gehört nicht zu diesem Dienst, oder er gilt nicht mehr.',
    disabled:
      'Wer diesen Dienst betreibt, hat das Konto dazu gesperrt. Gelöscht ist nichts. Versuchen Sie es später wieder.',
    scope: 'Dieser API-Schlüssel darf das nicht.',
    forbidden: 'Das erlaubt der Dienst nicht.',
    quota: 'Dafür ist kein Platz: Die Grenze dieses Kontos oder Links ist erreicht.',
    guest_quota: 'Diese Einladung nimmt gerade nichts mehr an. Nehmen Sie einen Link zurück, oder fragen Sie nach.',
    too_large: 'Eine Datei ist größer, als dieser Dienst annimmt.',
    name: 'Der Name einer Datei hat Zeichen, die sich nicht senden lassen. Benennen Sie sie um.',
    too_much:
      'Das sind zu viele Dateien, oder die Nachricht ist zu lang. Senden Sie weniger auf einmal, oder einen ' +
      'Ordner, der als eine ZIP-Datei geht.',
    password: 'Dieses Passwort geht nicht. Geben Sie eines ohne unsichtbare Zeichen ein.',
    public_key: 'Das ist kein öffentlicher Schlüssel. Ein öffentlicher Schlüssel beginnt mit age1.',
    terms: 'Das erlaubt der Dienst nicht. Wählen Sie eine andere Zeit oder eine andere Zahl von Öffnungen.',
    no_link: 'Dieser Dienst hat keinen Schlüssel dazu, deshalb kann diese Seite keinen Link erstellen.',
  },

  footerHash: 'Version',
  footerText: 'In Ihrem Browser ver- und entschlüsselt. Keine Cookies, kein Tracking.',
};
