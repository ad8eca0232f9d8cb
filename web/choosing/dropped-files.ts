/** Files and folders that were dropped. */
import type { FileToSend } from '../protocol.ts';

/**
 * Reads what was dropped: files, and folders with all that is in them. What cannot be read is left
 * out, as an empty folder is.
 */
export async function droppedFiles(data: DataTransfer): Promise<FileToSend[]> {
  // Items are there until the event ends; entries stay.
  const items = [...data.items].filter(({ kind }) => kind === 'file');
  const entries = items.map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
  if (entries.length === 0) return [...data.files];
  const found = await Promise.all(
    entries.map(async ({ entry, file }): Promise<FileToSend[]> => {
      if (entry?.isDirectory !== true) return file === null ? [] : [file];
      const files = await filesBelow(entry as FileSystemDirectoryEntry, `${entry.name}/`);
      const size = files.reduce((sum, each) => sum + each.file.size, 0);
      return files.length === 0 ? [] : [{ name: `${entry.name}.zip`, size, files }];
    }),
  );
  return found.flat();
}

async function filesBelow(folder: FileSystemDirectoryEntry, path: string): Promise<{ path: string; file: File }[]> {
  const found: { path: string; file: File }[] = [];
  const reader = folder.createReader();
  for (;;) {
    // A reader gives at most 100 entries at once.
    const entries = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (entries.length === 0) return found;
    for (const entry of entries)
      if (entry.isDirectory)
        found.push(...(await filesBelow(entry as FileSystemDirectoryEntry, `${path}${entry.name}/`)));
      else
        found.push({
          path: path + entry.name,
          file: await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject)),
        });
  }
}
