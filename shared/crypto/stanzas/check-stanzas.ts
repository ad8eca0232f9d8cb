/** Demands of a format on the stanzas of a header together. */
import { SealpinError } from '../../errors.ts';
import type { FormatRow, Stanza, StanzaRow } from '../formats/format-row.ts';

/** Returns what a format says of a stanza; undefined for one that it does not define. */
function rowOf(stanza: Stanza, format: FormatRow): StanzaRow | undefined {
  return format.stanzas.get(stanza.args[0] ?? '');
}

export function stanzasOfKind(
  stanzas: readonly Stanza[],
  kind: StanzaRow['kind'],
  format: FormatRow,
): readonly Stanza[] {
  return stanzas.filter((stanza) => rowOf(stanza, format)?.kind === kind);
}

/**
 * Checks the stanzas of a header before a key is asked for.
 * @throws SealpinError `header_invalid` for a password with another stanza, for a second `file`
 * stanza, and for a malformed stanza of those that the format checks
 */
export function checkStanzas(stanzas: readonly Stanza[], format: FormatRow): void {
  if (stanzas.length > 1 && stanzasOfKind(stanzas, 'password', format).length > 0)
    throw new SealpinError('header_invalid', 'the header combines a password with something else');
  for (const stanza of stanzas) rowOf(stanza, format)?.check?.(stanza, format);
  if (stanzasOfKind(stanzas, 'file', format).length > 1)
    throw new SealpinError('header_invalid', 'the header belongs to more than one file');
}

/** Returns the line that a detached header has before its payload; an empty text for others. */
export function detachedLineOf(stanzas: readonly Stanza[], format: FormatRow): string {
  return (stanzasOfKind(stanzas, 'file', format).length > 0 && format.detachedLine) || '';
}
