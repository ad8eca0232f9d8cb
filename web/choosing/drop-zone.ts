/** Dropping files anywhere on a page, which shows where they go. */
import type { FileToSend } from '../protocol.ts';
import { byId } from '../states.ts';
import { droppedFiles } from './dropped-files.ts';

/** `isOpen`: whether the page takes files now; `left`: paths of what is left out. */
type DropZone = { isOpen(): boolean; take(files: FileToSend[], left: string[]): void };

/** Takes what is dropped on the page. Where it takes none, no browser leaves the page for it. */
export function startDropZone({ isOpen, take }: DropZone): void {
  const overlay = byId('overlay', HTMLParagraphElement);
  /** Elements that the pointer has entered and not left. */
  let depth = 0;
  const showOverlay = (): void => {
    overlay.hidden = depth === 0 || !isOpen();
  };
  const count = (step: 1 | -1) => (event: DragEvent) => {
    if (event.dataTransfer?.types.includes('Files') === true) depth = Math.max(0, depth + step);
    showOverlay();
  };
  addEventListener('dragenter', count(1));
  addEventListener('dragleave', count(-1));
  addEventListener('dragover', (event) => event.preventDefault());
  addEventListener('drop', (event) => {
    event.preventDefault();
    depth = 0;
    showOverlay();
    if (event.dataTransfer !== null && isOpen())
      void droppedFiles(event.dataTransfer).then(({ files, left }) => take(files, left));
  });
}
