/** Files and folders that were dropped or chosen. */
import type { FileToSend, FolderToSend } from '../protocol.ts';

type InFolder = FolderToSend['files'][number];

/** Reads what was dropped. `left`: paths of what is empty or cannot be read. */
export async function droppedFiles(data: DataTransfer): Promise<{ files: FileToSend[]; left: string[] }> {
  // Items are there until the event ends; entries stay.
  const items = [...data.items].filter(({ kind }) => kind === 'file');
  const left: string[] = [];
  if (items.length === 0) return { files: [...data.files], left };
  const found = items.map(async (item): Promise<FileToSend[]> => {
    const [entry, file] = [item.webkitGetAsEntry(), item.getAsFile()];
    if (entry?.isDirectory === true) return folderOf(await filesOf(entry, entry.name, left));
    return file === null ? [] : [file];
  });
  return { files: (await Promise.all(found)).flat(), left };
}

/** Files that were chosen, or a folder, of which some browsers give its files alone. */
export function filesOrFolder(chosen: Iterable<File>): FileToSend[] {
  const files = [...chosen];
  if (files.some(({ webkitRelativePath: path }) => path === '')) return files;
  return folderOf(files.map((file) => ({ path: file.webkitRelativePath, file })));
}

/** The folder of files whose paths begin with its name; none without a file. */
function folderOf(files: readonly InFolder[]): FolderToSend[] {
  const size = files.reduce((sum, { file }) => sum + file.size, 0);
  return files.slice(0, 1).map(({ path }) => ({ name: `${path.split('/')[0]}.zip`, size, files }));
}

/** @param left gets the paths of what cannot be read, and of what has nothing that can */
async function filesOf(entry: FileSystemEntry, path: string, left: string[]): Promise<InFolder[]> {
  const found: InFolder[] = [];
  let isRead = false;
  try {
    if (entry.isDirectory) {
      const reader = (entry as FileSystemDirectoryEntry).createReader();
      for (let more = true; more;) {
        // A reader gives at most 100 entries at once.
        const entries = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
        for (const each of entries) found.push(...(await filesOf(each, `${path}/${each.name}`, left)));
        more = entries.length > 0;
      }
    } else {
      const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
      found.push({ path, file });
    }
    isRead = found.length > 0;
  } catch {
    // What came before the failure is there.
  }
  if (!isRead) left.push(path);
  return found;
}
