/** Dropping files anywhere on a page, which shows where they go. */
import type { FileToSend } from '../protocol.ts';
import { byId } from '../states.ts';
import { droppedFiles } from './dropped-files.ts';

/**
 * Takes what is dropped on the page.
 * @param o.isOpen whether the page takes files now; if not, nothing happens, and no browser leaves
 * the page for the file
 * @param o.take gets files and folders, and the paths of what is left out
 */
export function startDropZone({
  isOpen,
  take,
}: {
  isOpen(): boolean;
  take(files: FileToSend[], left: string[]): void;
}): void {
  const overlay = byId('overlay', HTMLParagraphElement);
  /** Elements that the pointer has entered and not left. */
  let depth = 0;
  const showOverlay = (): void => {
    overlay.hidden = depth === 0 || !isOpen();
  };
  const hasFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes('Files') === true;
  for (const [type, step] of [
    ['dragenter', 1],
    ['dragleave', -1],
  ] as const)
    addEventListener(type, (event) => {
      if (hasFiles(event)) depth = Math.max(0, depth + step);
      showOverlay();
    });
  addEventListener('dragover', (event) => event.preventDefault());
  addEventListener('drop', (event) => {
    event.preventDefault();
    depth = 0;
    showOverlay();
    if (event.dataTransfer !== null && isOpen())
      void droppedFiles(event.dataTransfer).then(({ files, left }) => take(files, left));
  });
}
