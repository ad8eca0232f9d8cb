/** The state that shows what was opened: the sender's words, the files, and all of them at once. */
import type { Engine } from '../engine-client.ts';
import { fileRow, type FileRowView } from './file-row.ts';
import type { OpenedView, Receiving } from '../protocol.ts';
import { byId, hasFocusOf, onClick, setText, show, words } from '../states.ts';
import { messageName } from '../choosing/text-message.ts';
import { showSignature } from './signature.ts';

/** Picks a folder, where the browser lets a page write into one. */
type FolderPicker = (o: { mode: 'readwrite' }) => Promise<FileSystemDirectoryHandle>;
const folderPicker = (): FolderPicker | undefined =>
  (globalThis as { showDirectoryPicker?: FolderPicker }).showDirectoryPicker;

let fileRows: readonly FileRowView[] = [];
const toFolder = onClick('to-folder', saveToFolder);

/** Shows what was opened. @param onSaved runs once everything is saved */
export function showOpened(
  engine: Engine<Receiving>,
  { files, note, from, signed, zip }: OpenedView,
  onSaved: () => void,
) {
  const isMessage = files.length === 1 && files[0]?.name === messageName && files[0].cid !== undefined;
  const title = isMessage ? words.openedMessage : words.openedTitle(files.length);
  byId('opened-title', HTMLHeadingElement).textContent = title;
  void showSignature(signed, from);
  byId('letter', HTMLElement).hidden = note === undefined && from === undefined;
  setText(byId('note', HTMLQuoteElement), note);
  setText(byId('from', HTMLElement), from === undefined ? undefined : words.fromSender(from));
  let isZipSaved = false;
  const noteSaved = (): void => {
    if (isZipSaved || fileRows.every((row) => row.isSaved())) onSaved();
  };
  fileRows = files.map((file) => fileRow(engine, file, { onSaved: noteSaved }));
  byId('files', HTMLUListElement).replaceChildren(...fileRows.map(({ element }) => element));
  const noteZip = (): void => {
    isZipSaved = true;
    noteSaved();
  };
  const asZip = { label: words.allTogether(files.length), button: words.saveAll, onSaved: noteZip };
  const together = zip === undefined ? [] : [fileRow(engine, { ...zip, name: words.zipName }, asZip).element];
  byId('together', HTMLUListElement).replaceChildren(...together);
  toFolder.disabled = false;
  byId('folder-line', HTMLParagraphElement).hidden = files.length < 2 || folderPicker() === undefined;
  const cids = files.flatMap(({ cid }) => cid ?? []);
  byId('blob-ids', HTMLUListElement).replaceChildren(...cids.map(blobId));
  show('opened');
  // Who opens a message wants to read it.
  if (isMessage) void fileRows[0]?.look();
}

async function saveToFolder(): Promise<void> {
  const rows = fileRows;
  const hadFocus = document.activeElement === toFolder;
  toFolder.disabled = true;
  try {
    const into = await folderPicker()?.({ mode: 'readwrite' });
    // It ends where something else is opened meanwhile.
    for (const row of rows) if (into !== undefined && rows === fileRows && !row.isSaved()) await row.save({ into });
  } catch {
    // The dialog was closed; a file that is not saved says so itself.
  } finally {
    if (rows === fileRows) toFolder.disabled = false;
    if (hadFocus && hasFocusOf(toFolder)) toFolder.focus({ preventScroll: true });
  }
}

function blobId(cid: string): HTMLLIElement {
  const item = document.createElement('li');
  const code = document.createElement('code');
  code.textContent = cid;
  item.append(`${words.blobId}: `, code);
  return item;
}
