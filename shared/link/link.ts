/**
 * Links (docs/links.md): a page, and behind the `#`, which browsers send to nobody, what opens
 * something.
 */
import { isApiKeyText } from '../crypto/keys/api-key-text.ts';
import {
  base62Characters,
  checksum,
  checksumCharacters,
  decodeBase62,
  encodeBase62,
  endsWithChecksum,
} from '../crypto/keys/base62.ts';
import { decodeKey } from '../crypto/keys/bech32.ts';
import { fileKeyText, parseFileKey } from '../crypto/keys/file-key-text.ts';
import { orUndefined, SealpinError } from '../errors.ts';
import { isCid } from '../ipfs/cid.ts';

/** A link by its kind; `service` is the URL of the pages, with a slash at its end. */
export type Link =
  /** `id`: of the share, 22 characters; `secret`: 32 bytes that open its record. */
  | { kind: 'share'; service: string; id: string; secret: Uint8Array }
  /** `fileKey`: opens the blob; without it, the reader needs a key or password of their own. */
  | { kind: 'blob'; service: string; cid: string; fileKey?: Uint8Array }
  /** `apiKey`: may write to the account; `recipient`: whom the files are sealed to, `age1tag1…`. */
  | { kind: 'inbox'; service: string; apiKey: string; recipient: string }
  /** `apiKey`: may store and share for a while. */
  | { kind: 'invitation'; service: string; apiKey: string };

/** The version of share links. The others begin with a text that has a version of its own. */
const shareVersion = '1';
/** Bytes of a share's ID. */
export const shareIdBytes = 16;
/** Bytes of a share's secret. */
export const secretBytes = 32;
/** Of the P-256 point in an `age1tag1…` text. */
const compressedPointBytes = 33;
const idCharacters = base62Characters(shareIdBytes);

/** Longer than any link, with room for what a mail program or a messenger adds to it. */
const maxCharacters = 8192;

/** Recognizes the form of a share's ID: 128 bits as 22 base62 characters. */
export function isShareId(text: string): boolean {
  return decodeBase62(text, shareIdBytes) !== undefined;
}

/**
 * Writes a link.
 * @throws TypeError when a part of it does not have its form
 * @example
 * printLink({ kind: 'share', service: 'https://sealpin.example/', id, secret }); // https://sealpin.example/s#1…
 */
export function printLink(link: Link): string {
  const fragment = fragmentOf(link);
  if (linkKinds[link.kind].parse(fragment) === undefined)
    throw new TypeError(`the parts of the ${link.kind} link are malformed`);
  if (serviceText(new URL(link.service)) !== link.service)
    throw new TypeError('service must be an http: or https: URL that ends with a slash');
  return `${link.service}${linkKinds[link.kind].page}#${fragment}`;
}

function fragmentOf(link: Link): string {
  if (link.kind === 'share') return withChecksum(`${shareVersion}${link.id}${encodeBase62(link.secret)}`);
  if (link.kind === 'inbox') return `${link.apiKey}.${link.recipient}`;
  if (link.kind === 'invitation') return link.apiKey;
  return link.fileKey === undefined ? link.cid : withChecksum(`${link.cid}.${fileKeyText(link.fileKey)}`);
}

function withChecksum(text: string): string {
  return text + checksum(text);
}

/**
 * Reads a link, also one that a mail program or a messenger has changed: what surrounds it is
 * dropped, what was appended to it is cut off, and `%23` is read as `#`.
 * @returns the link, and `exposed`: it has `%23`, so a browser that opened it sent all of it to the
 * service
 * @throws SealpinError `link_invalid` (`not_a_link`; `incomplete` for one that was cut off or
 * changed), `unsupported_version`
 */
export function parseLink(text: string): { link: Link; exposed: boolean } {
  if (text.length > maxCharacters) throw notALink();
  const start = text.search(/[0-9A-Za-z]/);
  if (start === -1) throw notALink();
  const link = text.slice(start);
  // A query, such as a campaign's, is dropped, and so is whatever follows the characters that a
  // fragment can have.
  const [, before = link, encoded, after = ''] = /^([^#?]*?)(?:(%23)|(?:\?[^#]*)?#)(.*)$/s.exec(link) ?? [];
  const { kind, service } = parseAddress(before);
  const fragment = /^\w+(?:\.+\w+)*/.exec(after)?.[0] ?? '';
  if (kind === 'share' && /^[02-9]/.test(fragment))
    throw new SealpinError('unsupported_version', 'unsupported link version');
  const parts = linkKinds[kind].parse(fragment);
  if (parts === undefined)
    throw new SealpinError('link_invalid', 'the link is incomplete, or was changed on its way', {
      reason: 'incomplete',
    });
  return { link: { ...parts, service }, exposed: encoded !== undefined };
}

/**
 * What a link of each kind `is`, and what somebody who has another one may `ask` for, in the words
 * of an error.
 */
const kindWords = {
  share: { is: 'for receiving files', ask: 'the link of the files' },
  blob: { is: 'for receiving a file', ask: 'the link of the file' },
  inbox: { is: 'for handing files over to an inbox', ask: 'the link of an inbox' },
  invitation: { is: 'an invitation, for sending files', ask: 'an invitation' },
} as const satisfies Record<Link['kind'], object>;

/** Reads a link of certain kinds. @throws as `parseLink`; SealpinError `link_invalid` for others */
export function parseLinkOf<K extends Link['kind']>(
  text: string,
  ...kinds: readonly K[]
): { link: Extract<Link, { kind: K }>; exposed: boolean } {
  const { link, exposed } = parseLink(text);
  if ((kinds as readonly Link['kind'][]).includes(link.kind))
    return { link: link as Extract<Link, { kind: K }>, exposed };
  throw new SealpinError('link_invalid', `this link is ${kindWords[link.kind].is}`, {
    reason: 'not_a_link',
    hint: `open it in a browser, or ask for ${kindWords[kinds[0] ?? link.kind].ask}`,
  });
}

function notALink(): SealpinError {
  return new SealpinError('link_invalid', 'this is not a link of a Sealpin service', { reason: 'not_a_link' });
}

/**
 * Parsers of URLs read `https:/x`, `https:\\x` and quotes around a host differently: a link has
 * none of them.
 */
const plainAuthority = /^https?:\/\/(?:[0-9A-Za-z.-]+|\[[0-9A-Fa-f:.]+\])(?::\d+)?\//i;

/** The service of an address, and the kind of link that its page takes. */
function parseAddress(address: string): { kind: Link['kind']; service: string } {
  if (!plainAuthority.test(address) || !URL.canParse(address)) throw notALink();
  const url = new URL(address);
  const [, folder = '', page] = /^(.*\/)([^/]+)\/?$/.exec(url.pathname) ?? [];
  const kind = (['share', 'blob', 'inbox', 'invitation'] as const).find((each) => linkKinds[each].page === page);
  url.pathname = folder;
  const service = serviceText(url);
  if (kind === undefined || service === undefined) throw notALink();
  return { kind, service };
}

/** The text of a service's URL; undefined for a URL that none can have. */
function serviceText({ protocol, username, password, origin, pathname }: URL): string | undefined {
  const isWeb = (protocol === 'https:' || protocol === 'http:') && username === '' && password === '';
  return isWeb && pathname.endsWith('/') ? `${origin}${pathname}` : undefined;
}

/** A link without its service. */
type LinkParts = Link extends infer Each ? (Each extends Link ? Omit<Each, 'service'> : never) : never;

/** The parts of a fragment; undefined when it is malformed or its checksum is wrong. */
function shareParts(fragment: string): LinkParts | undefined {
  const id = fragment.slice(shareVersion.length, shareVersion.length + idCharacters);
  const secret = decodeBase62(fragment.slice(shareVersion.length + idCharacters, -checksumCharacters), secretBytes);
  const isWhole = fragment.startsWith(shareVersion) && endsWithChecksum(fragment);
  return isWhole && isShareId(id) && secret !== undefined ? { kind: 'share', id, secret } : undefined;
}

function blobParts(fragment: string): LinkParts | undefined {
  const [cid = '', key, ...others] = fragment.split('.');
  if (others.length > 0 || !isCid(cid)) return undefined;
  if (key === undefined) return { kind: 'blob', cid };
  const fileKey = endsWithChecksum(fragment) ? parseFileKey(key.slice(0, -checksumCharacters)) : undefined;
  return fileKey && { kind: 'blob', cid, fileKey };
}

function inboxParts(fragment: string): LinkParts | undefined {
  const [apiKey = '', recipient = '', ...others] = fragment.split('.');
  const isWhole = others.length === 0 && isWholeKey(apiKey) && isRecipient(recipient);
  return isWhole ? { kind: 'inbox', apiKey, recipient } : undefined;
}

function isWholeKey(text: string): boolean {
  return isApiKeyText(text) && endsWithChecksum(text);
}

function isRecipient(text: string): boolean {
  const point = orUndefined(() => decodeKey(text, 'age1tag', compressedPointBytes));
  // Bech32 also has a spelling in capitals, and a link has one spelling only.
  return point !== undefined && text === text.toLowerCase();
}

/**
 * The kinds of links: the page that takes one, which is the last segment of its address, and the
 * reader of its fragment.
 */
const linkKinds = {
  share: { page: 's', parse: shareParts },
  blob: { page: 'b', parse: blobParts },
  inbox: { page: 'drop', parse: inboxParts },
  invitation: {
    page: 'send',
    parse: (apiKey: string) => (isWholeKey(apiKey) ? ({ kind: 'invitation', apiKey } as const) : undefined),
  },
} as const;
