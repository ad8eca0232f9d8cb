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
    'Sealpin keeps files encrypted on IPFS, a public network. The key is in the part of a link behind the #, which browsers send to nobody.',

  askedTitle: 'Someone sent you files',
  askedTitleBlob: 'Someone sent you a file',
  askedTitleContainer: 'An encrypted file',
  opensOnce: (until: string) => `This link opens once more, until ${until}.`,
  opensTimes: (times: number, until: string) => `This link opens ${times} more times, until ${until}.`,
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
    'The # of this link had been turned into %23, probably by a mail filter. So the service has seen the key. Ask the sender for a new link if that matters.',

  openedTitle: (files: number) => (files === 1 ? 'A file for you' : `${files} files for you`),
  from: (name: string) => `From ${name}`,
  senderWords: 'in the sender’s own words',
  save: 'Save',
  saveAll: 'Save all',
  checked: 'Checked: what you save is exactly what was sent.',
  details: 'Details',
  detailsText:
    'Each block is compared with its blob ID, and each piece is authenticated before it is saved. The service sees neither names nor keys.',
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
  again: 'Save again',
  retry: 'Try again',
  notSaved: 'Not saved, nothing was kept.',
  announceSaved: (name: string) => `${name} is saved and complete.`,
  announceProgress: (name: string, percent: string) => `${name}: ${percent}`,

  problemTitle: 'This cannot be opened',
  startOver: 'Open something else',
  usedUpTitle: 'This link is used up',
  usedUpText: 'It was opened as often as its sender allowed. Ask the sender for a new one.',
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
  noKeyTitle: 'The key is missing',
  noKeyText: 'The page was loaded without the part of the link behind the #. Open the link from your message again.',

  errors: {
    wrong_password: 'This password does not open it. Trying again does not use the link up.',
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
      'This browser has no room for a file of this size. Use a current Chrome or Firefox on a computer, or the command line: sealpin receive.',
    disk_full: 'There is not enough room on this device.',
    aborted: 'Cancelled. Nothing was kept.',
    other: 'Something went wrong in this page. Nothing was kept.',
  },

  footerHash: 'Pages',
  footerText: 'Decrypted in your browser. No cookies, no tracking.',
};

/** The words of a language. */
export type Words = typeof en;
/** Words that take no value. */
export type Word = { [Key in keyof Words]: Words[Key] extends string ? Key : never }[keyof Words];
