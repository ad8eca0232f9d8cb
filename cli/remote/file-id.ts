/** File IDs, as people copy them. */
import { SealpinError } from '../../shared/errors.ts';

const fileIdPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Tells a file ID from a blob ID. */
export function isFileId(text: string): boolean {
  return fileIdPattern.test(text.trim());
}

/** Parses a file ID. The error does not repeat other text. @throws usage */
export function parseFileId(text: string): string {
  if (isFileId(text)) return text.trim().toLowerCase();
  throw new SealpinError('usage', 'that is not a file ID', {
    hint: 'a file ID looks like 6f1c2d3e-…; sealpin list --json shows the one of each file',
  });
}
