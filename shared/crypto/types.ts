import type { Backend } from './backends/backend.ts';

/** The two container formats: age v1, and `sealpin/v1`. */
export type Format = 'age' | 'sealpin';

/** One entry of a header: arguments (the first is the name) and a body. */
export type Stanza = { args: readonly string[]; body: Uint8Array };

/** Someone who shall be able to open a container. */
export interface Recipient {
  readonly kind: 'password' | 'key';
  /** The text form: `age1…`, `age1tag1…`. */
  readonly text?: string;
  /** Whether it withstands a quantum computer; such recipients are not mixed with others unless asked. */
  readonly postQuantum?: boolean;
  /** Wraps the file key (16 bytes in age, 32 in sealpin). */
  wrap(fileKey: Uint8Array, format: Format, backend: Backend): Promise<Stanza>;
}

/** Something that opens a container. */
export interface Identity {
  readonly kind: 'password' | 'key';
  /** The file key, from the first stanza that is for this identity; undefined when none is. Throws `header_invalid` for a stanza that nobody can open. */
  unwrap(stanzas: readonly Stanza[], format: Format, backend: Backend): Promise<Uint8Array | undefined>;
}
