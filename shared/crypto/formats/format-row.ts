/**
 * The differences between container formats. Everything else about containers is the same for all.
 */
import type { Payload } from '../payload/chunking.ts';
import type { HpkeAead } from '../stanzas/hpke.ts';

/** The container formats: age v1, and `sealpin/v1`. */
export type Format = 'age' | 'sealpin';

/** One entry of a header: arguments (the first is the name) and a body. */
export type Stanza = { args: readonly string[]; body: Uint8Array };

/** A key derivation for passwords: the label before its salt, and the costs that are read. */
type PasswordRow = { readonly saltLabel: string; readonly min: number; readonly max: number };

/** A stanza that a format defines. */
export type StanzaRow = {
  /** Kind of credential that opens it; `file` says of which file a detached header is. */
  readonly kind: 'password' | 'key' | 'file';
  /** Throws `header_invalid`; without it, only identities of its kind look at the stanza. */
  readonly check?: (stanza: Stanza, format: FormatRow) => unknown;
};

/** A container format. A new version is a new row; a released row never changes. */
export interface FormatRow {
  readonly name: Format;
  /** The first line of a container, without its line feed. */
  readonly versionLine: string;
  /** The first line, with its line feed, of payloads whose headers are kept elsewhere. */
  readonly detachedLine?: string;
  /** Permits ASCII armor. */
  readonly isArmorable: boolean;
  readonly fileKeyBytes: number;
  /** HKDF info of the key of the header's MAC. */
  readonly macInfo: string;
  /** The cipher that wraps file keys. */
  readonly wrapAead: HpkeAead;
  /** The stanza of a P-256 key; `isTagged`: it begins with a tag of the key. */
  readonly p256: { readonly name: string; readonly info: string; readonly isTagged: boolean };
  readonly passwords: { readonly [name in 'scrypt' | 'pbkdf2-sha512']?: PasswordRow };
  /** The stanzas by name. Readers ignore other names (C2SP age.md, "Recipient stanza"). */
  readonly stanzas: ReadonlyMap<string, StanzaRow>;
  readonly payload: Payload;
}
