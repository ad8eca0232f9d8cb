/** English. The keys of texts that never change are those of `data-word` in the HTML. */
export const en = {
  language: 'en',
  direction: 'ltr' as 'ltr' | 'rtl',

  tagline: 'Files that only the people you choose can read',
  busy: 'One moment …',

  homeTitle: 'Open what you were sent',
  homeText: 'Paste the link, or the blob ID, from your message. Everything is decrypted here, in this page.',
  linkLabel: 'Link or blob ID',
  open: 'Open',
  or: 'or',
  chooseFile: 'Choose an encrypted file',
  chooseFileHint: 'An .age or Sealpin file from this computer, or drop it here. It stays on this computer.',
  whatTitle: 'What this is',
  whatText:
    'Sealpin keeps files encrypted on IPFS, a public network. The key is in the part of a link behind the #, ' +
    'which browsers send to nobody.',

  askedTitle: 'Someone sent you files',
  askedTitleBlob: 'Someone sent you a file',
  askedTitleContainer: 'An encrypted file',
  opensOnce: (until: string) =>
    `This link opens once more, until ${until}. That uses it up, so open it where you want to save the files.`,
  opensTimes: (times: number, until: string) =>
    `This link opens ${times} more times, until ${until}. Each opening counts, on every device.`,
  opensAgain: 'If this tab opened the link within the last 10 minutes, it opens here again, and that does not count.',
  usedUpAsked:
    'This link is now used up: what was sent can be opened on this page only. Do not close or reload it before ' +
    'everything is saved.',
  blobText: 'It is fetched and decrypted here when you open it.',
  containerText: 'It is decrypted here and does not leave this computer.',
  password: 'Password',
  passwordHint: 'The sender told it to you in another way.',
  passwordHintContainer: 'The one that it was encrypted with.',
  showPassword: 'Show the password',
  keyFile: 'Private key',
  keyFileHint: 'The file has the key that it was encrypted to. It stays on this computer.',
  opening: 'Opening …',
  exposed:
    'The # of this link had been turned into %23, probably by a mail filter. So the service has seen the key. ' +
    'Ask the sender for a new link if that matters.',

  openedTitle: (files: number) => (files === 1 ? 'A file for you' : `${files} files for you`),
  usedUpHere: 'This link is now used up. Save everything before you close or reload this page.',
  leaveFiles: 'The link of this page is used up, and not everything is saved. Open the other link anyway?',
  from: (name: string) => `From ${name}`,
  senderWords: 'in the sender’s own words',
  save: 'Save',
  saveAll: 'Save all',
  checked: 'Each file is checked while it is saved: you get exactly what was sent, or an error.',
  details: 'Details',
  detailsText:
    'Each block is compared with its blob ID, and each piece is authenticated before it is ' +
    'saved. The service sees neither names nor keys.',
  blobId: 'Blob ID',

  saving: 'Saving …',
  progress: (done: string, all: string) => `${done} of ${all}`,
  progressUnknown: (done: string) => `${done} so far`,
  timeLeft: (time: string) => `${time} left`,
  keepOpen: 'Keep this page open.',
  cancel: 'Cancel',
  cancelled: 'Cancelled. Nothing was kept.',
  savedPicked: 'Saved and complete.',
  savedDownloads: 'Complete. It is in your downloads.',
  savedHandedOver: 'Complete and checked. Your browser is saving it now.',
  copyStays: (time: string) =>
    `Keep this page open a little longer (${time}): it then removes its own copy of the file from this device.`,
  again: 'Save again',
  retry: 'Try again',
  stalled: 'Saving then continues where it stopped.',
  notSaved: 'Not saved, nothing was kept.',
  notWhole: 'Not saved.',
  announceProgress: (name: string, percent: string) => `${name}: ${percent}`,

  problemTitle: 'This cannot be opened',
  startOver: 'Open something else',
  usedUpTitle: 'This link is used up',
  usedUpText:
    'It was opened as often as its sender allowed. If you opened it yourself, its files may still be in another tab. ' +
    'Otherwise, ask the sender for a new link.',
  expiredTitle: 'This link has expired',
  expiredText: 'The key to the files was destroyed. Ask the sender for a new link.',
  revokedTitle: 'This link was taken back',
  revokedText: 'Its sender has ended it. The key to the files was destroyed.',
  goneTitle: 'There is nothing behind this link',
  goneText: 'It has ended, or it never existed here. Ask the sender for a new one.',
  incompleteTitle: 'This link is incomplete',
  incompleteText:
    'A part of it got lost on its way. Copy all of it from the message, from https:// to its last letter.',
  notALinkTitle: 'This is not a link of Sealpin',
  notALinkText: 'A link looks like https://…/s#1… or https://…/b#bafk…, a blob ID like bafkrei… .',
  elsewhereTitle: 'This link belongs to another service',
  elsewhereText: (host: string) => `It is opened at ${host}.`,
  elsewhereGo: (host: string) => `Go to ${host}`,
  inboxTitle: 'This link is for sending',
  inboxText: 'It is the address of an inbox: it takes files in and gives none out.',
  invitationText: 'It is an invitation to send files. It leads to none.',
  noKeyTitle: 'The key is missing',
  noKeyText:
    'The part of the link behind the # is missing. If you reloaded this page or came back to it, open the link from ' +
    'your message again.',
  noKeyCounts: 'If you had opened the files already, that uses the link once more.',

  sendTitle: 'Send files',
  sendText: 'They are encrypted here, in this page. This service cannot read them.',
  sendHome: 'Send files',
  filesHome: 'Your files',
  dropHere: 'Drop files here',
  chooseFiles: 'Choose files',
  chooseFirst: 'Choose at least one file.',
  chosen: (files: number) => (files === 1 ? 'One file chosen.' : `${files} files chosen.`),
  chosenRenamed: (files: number) =>
    files === 1 ? 'One is sent under another name.' : `${files} are sent under other names.`,
  renamed: (characters: string) =>
    characters === ''
      ? 'Sent under this name: its own is too long.'
      : `Sent under this name: its own has characters that cannot be sent (${characters}).`,
  remove: 'Remove',
  removed: (name: string) => `${name} was removed.`,
  expires: 'Expires',
  inTime: (time: string) => `in ${time}`,
  opens: 'Opens',
  times: (times: number) => (times === 1 ? 'once' : `${times} times`),
  whoOpens: 'Who can open it',
  withLink: 'Anyone with the link',
  withPassword: 'Anyone with the link and a password',
  withPasswordHint: 'Tell it to the receiver in another way than the link.',
  passwordMissing: 'Enter a password, or let anyone with the link open it.',
  withKeys: 'Anyone with the link and a private key',
  publicKeys: 'Public keys',
  withKeysHint: 'The public keys of the receivers, one a line. They begin with age1.',
  keysMissing: 'Enter a public key, or let anyone with the link open it.',
  note: 'Note',
  yourName: 'Your name',
  optional: 'optional',
  send: 'Encrypt and send',
  back: 'Back',

  sendingTitle: 'Encrypting and sending …',
  sendingText: 'Each file is encrypted here, and only then leaves this computer.',
  sentTitle: 'Your link',
  sentText: 'Send it to the receiver.',
  sentAnyone: 'Anyone who has it can open the files.',
  sentOnce: 'Copy it now: it is kept nowhere else.',
  copy: 'Copy',
  copied: 'Copied',
  copyByHand: 'It is selected now; copy it with the keyboard.',
  codeLabel: 'QR code of the link',
  opensUntil: (times: number, until: string) =>
    times === 1 ? `Opens once, until ${until}.` : `Opens ${times} times, until ${until}.`,
  tellPassword: 'Tell the password separately.',
  tellKeys: 'It opens with a private key of the receiver only.',
  change: 'Change',
  takeBack: 'Take it back',
  sendMore: 'Send something else',
  changeTitle: 'Change the link',
  changeText: 'The files stay as they are. You get a new link, and the one before ends.',
  newLink: 'Make the link',
  takenTitle: 'Taken back',
  takenText: 'The link has ended, and the key to the files was destroyed.',
  takenDeleted: 'The files are deleted.',
  takenUnopened: 'Nobody had opened it.',
  takenOpened: (times: number) =>
    times === 1
      ? 'It had been opened once, which cannot be undone.'
      : `It had been opened ${times} times, which cannot be undone.`,

  signingTitle: 'Your API key',
  signingSend: 'This service stores files for those who have a key. Receivers need none.',
  signingFiles: 'It shows what its account has stored.',
  apiKey: 'API key',
  apiKeyHint: 'It stays in the memory of this page until you close it.',
  goOn: 'Continue',
  whereKeyTitle: 'Where to get one',
  whereKeyText: 'From the people who run this service, or with the command line:',
  scopesMissing: (scopes: string) => `This key may not do that: it lacks ${scopes}.`,

  guestText: (until: string | undefined, room: string) =>
    `You are invited to send files${until === undefined ? '' : ` until ${until}`}${room === '' ? '' : `: ${room}`}. ` +
    'They are encrypted in this page, and this service cannot read them.',
  guestFiles: (files: number) => (files === 1 ? 'one more file' : `${files} more files`),
  guestSize: (size: string) => `${size} altogether`,
  guestEnd: (until: string) => `The link ends with your invitation: ${until}.`,
  guestEndedTitle: 'This invitation has ended',
  guestEndedText:
    'It was taken back, or its time is over. Its links have ended, and what was sent with it is deleted. ' +
    'Ask for a new one.',
  linksTitle: 'Your links',
  linksText: 'All that were made with this invitation, the newest first. The service does not know what they lead to.',
  linksNone: 'No link was made with this invitation, or all are taken back.',
  linkAbout: (files: number, made: string) => (files === 1 ? `One file, ${made}` : `${files} files, ${made}`),
  linkOpened: (opened: number, opens: number) => `opened ${opened} of ${opens} times`,
  linkUntil: (until: string) => `until ${until}`,
  linkUsedUp: 'used up',
  linkExpired: 'expired',
  linkPassword: 'with a password',
  takingTitle: 'Take this link back?',
  takingText: 'It ends at once, and its files are deleted. What was opened before cannot be undone.',
  linkTaken: (about: string) => `${about}: taken back.`,

  dropTitle: (name: string) => `Files for “${name}”`,
  dropText: 'Only they can read them; not this service, nor you later.',
  handOver: 'Hand over',
  handedTitle: 'Handed over',
  handedText: (files: number, name: string) =>
    files === 1
      ? `One file for “${name}” is there, and complete.`
      : `${files} files for “${name}” are there, and complete.`,
  handMore: 'Hand over more',
  inboxGo: 'Hand files over',
  closedTitle: 'This inbox is closed',
  closedText: 'Its owner has ended it, or its time is over. Ask for a new link.',
  unusableTitle: 'Nothing can be handed over',

  storedTitle: 'Your files',
  storedText: 'The newest come first.',
  storedNone: 'Nothing is stored.',
  showMore: 'Show more',
  noName: (blobId: string) => `Without a name (${blobId}…)`,
  sealedBefore: 'encrypted by its sender',
  sendOn: 'Send on',
  sendOnTitle: 'Send a stored file',
  sendOnText: 'Nothing is uploaded: the link has what opens the file.',
  backToFiles: 'Back to your files',
  delete: 'Delete',
  keep: 'Keep it',
  deletingTitle: 'Delete this file?',
  deletingText: 'Its key is destroyed, and its links end. Nobody can open it again, you included.',
  deletingSealedText: 'Its links end, and this service forgets it. What others have fetched stays encrypted.',
  deleted: (name: string) => `${name} is deleted.`,
  keyDestroyed: 'Its key is destroyed.',

  errors: {
    wrong_password: 'This password does not open it. You can try as often as you like.',
    no_key: 'This key does not open it.',
    not_encrypted: 'These bytes are not encrypted, neither by Sealpin nor by age.',
    needs_link: 'Only the link that was made for it opens it.',
    damaged: 'The data is damaged, or it is not what was sent. Nothing of it was kept.',
    unreachable: 'The service cannot be reached. Check your connection and try again.',
    busy: 'The service is busy at the moment. Try again shortly.',
    absent: 'The file is not there any more.',
    unsupported: 'It was made with a newer version of Sealpin.',
    key_invalid: 'This is not a private key that opens such files.',
    no_room:
      'This browser has no room for a file of this size. Use a current Chrome or Firefox on a computer, or the ' +
      'command line: sealpin receive.',
    cut_off: 'The browser ended the download early. Delete what is in your downloads: it is not the whole file.',
    disk_full: 'There is not enough room on this device.',
    aborted: 'Cancelled. Nothing was kept.',
    other: 'Something went wrong in this page. Nothing was kept.',
    not_sent: 'Cancelled. There is no link, so nobody can open what had been sent.',
    api_key: 'This API key is not one of this service, or it has ended.',
    scope: 'This API key may not do that.',
    quota: 'There is no room for it: the limit of this account or link is reached.',
    too_large: 'A file is larger than this service takes.',
    name: 'The name of a file has characters that cannot be sent. Rename it.',
    too_much: 'These are too many files, or the note is too long. Send fewer at once.',
    password: 'This password cannot be used. Enter one without invisible characters.',
    public_key: 'This is not a public key. Those that files are encrypted to begin with age1.',
    terms: 'The service does not allow that. Choose less time or fewer opens.',
    sealed_before: 'It was encrypted before it came here, so this page cannot make a link for it.',
    not_sent_other: 'Something went wrong, and there is no link. Try again.',
  },

  footerHash: 'Pages',
  footerText: 'Encrypted and decrypted in your browser. No cookies, no tracking.',
};

export type Words = typeof en;
/** Words that take no value. */
export type Word = { [Key in keyof Words]: Words[Key] extends string ? Key : never }[keyof Words];
