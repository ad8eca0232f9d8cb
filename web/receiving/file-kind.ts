/** Kinds of files, by their names and by their first bytes. */

/** Longest extension that a badge shows. */
const badgeLetters = 4;

/** Letters for the badge of a file: its extension, or a dot. */
export function badgeText(name: string): string {
  const extension = extensionOf(name);
  return extension.length > badgeLetters || extension === '' ? '·' : extension;
}

/** Recognizes what the command line makes of a folder. */
export function isTar(name: string): boolean {
  return extensionOf(name) === 'tar';
}

function extensionOf(name: string): string {
  return /\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? '';
}

/** Kinds that a page shows itself; everything else is saved. */
export type Shown = { readonly as: 'image' | 'audio' | 'video' | 'text'; readonly type: string };

/** By extension: what it is shown as, its media type, and the hex of how such a file begins. */
const kinds: Readonly<Record<string, Shown & { begins: RegExp }>> = {
  png: { as: 'image', type: 'image/png', begins: /^89504e470d0a1a0a/ },
  jpg: { as: 'image', type: 'image/jpeg', begins: /^ffd8ff/ },
  gif: { as: 'image', type: 'image/gif', begins: /^47494638(?:37|39)61/ },
  webp: { as: 'image', type: 'image/webp', begins: /^52494646.{8}57454250/ },
  avif: { as: 'image', type: 'image/avif', begins: /^.{8}6674797061766966/ },
  mp3: { as: 'audio', type: 'audio/mpeg', begins: /^(?:494433|ff[ef])/ },
  m4a: { as: 'audio', type: 'audio/mp4', begins: /^.{8}66747970/ },
  ogg: { as: 'audio', type: 'audio/ogg', begins: /^4f676753/ },
  flac: { as: 'audio', type: 'audio/flac', begins: /^664c6143/ },
  wav: { as: 'audio', type: 'audio/wav', begins: /^52494646.{8}57415645/ },
  mp4: { as: 'video', type: 'video/mp4', begins: /^.{8}66747970/ },
  webm: { as: 'video', type: 'video/webm', begins: /^1a45dfa3/ },
};
const aliases: Readonly<Record<string, string>> = { jpeg: 'jpg', opus: 'ogg', oga: 'ogg', m4v: 'mp4' };
const texts = new Set(['txt', 'md', 'csv', 'log', 'json', 'yaml', 'yml', 'ini', 'srt', 'tsv']);

/** Kind that a file could be shown as, by its name alone. */
export function shownByName(name: string): Shown | undefined {
  const extension = extensionOf(name);
  if (texts.has(extension)) return { as: 'text', type: 'text/plain' };
  const kind = kinds[aliases[extension] ?? extension];
  return kind === undefined ? undefined : { as: kind.as, type: kind.type };
}

/** Checks that a file begins as its name says; of a text any beginning is right. */
export function isAsNamed(name: string, begin: Uint8Array): boolean {
  const extension = extensionOf(name);
  const hex = Array.from(begin, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return texts.has(extension) || kinds[aliases[extension] ?? extension]?.begins.test(hex) === true;
}

// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const controlCharacters = /[\u0000-\u0008\u000b\u000e-\u001f\u007f]/;

/** The text of a file; undefined for bytes that are none. */
export function readableText(bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return controlCharacters.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}
