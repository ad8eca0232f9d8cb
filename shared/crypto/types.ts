import type { CryptoProvider } from './providers/provider.ts';
import type { FormatRow, Stanza } from './formats/format-row.ts';
import type { Header } from './header.ts';

/** Somebody a container is encrypted to. */
export interface Recipient {
  readonly kind: 'password' | 'key';
  /** The text form: `age1…`, `age1tag1…`. */
  readonly text?: string;
  /** Withstands a quantum computer; not mixed with others unless asked. */
  readonly postQuantum?: boolean;
  /** Wraps the file key of a container in a stanza. */
  wrap(fileKey: Uint8Array, format: FormatRow, provider: CryptoProvider): Promise<Stanza>;
}

/** A recipient that has a text form. */
export type NamedRecipient = Recipient & { readonly text: string };

/** Something that opens a container. */
export interface Identity {
  /** The text of its recipient, for messages. */
  readonly recipient?: string;
  /** Kind of headers that it opens: those with a password, those with keys, or any. */
  readonly kind: 'password' | 'key' | 'any';
  /**
   * Returns the file key, which most identities unwrap from the first stanza that is for them;
   * undefined when they have none for this header.
   * @throws SealpinError `header_invalid` for a stanza of its kind that nobody can open
   */
  unwrap(header: Header, format: FormatRow, provider: CryptoProvider): Promise<Uint8Array | undefined>;
}

/** An identity whose recipient is known. */
export type NamedIdentity = Identity & { readonly recipient: string };

/** A container that can be read from any offset. */
export interface RandomAccess {
  /** Its size. */
  readonly bytes: number;
  /** Reads exactly `length` bytes from `offset`; never called for bytes past the end. */
  read(offset: number, length: number): Promise<ReadableStream<Uint8Array>>;
}

/** The primitives to use; those of `webProvider` when undefined. */
export type WithProvider = { provider?: CryptoProvider | undefined };
