/**
 * Looking at a file in the page: images, sound, films and text, as elements that run nothing. The
 * file's name and its first bytes must agree on what it is. A look says nothing about the whole.
 */
import type { Engine } from '../engine-client.ts';
import type { FileView, Receiving } from '../protocol.ts';
import { words } from '../states.ts';
import { copyButton } from './copy-button.ts';
import { isAsNamed, shownByName, readableText, type Shown } from './file-kind.ts';
import { mediaAddress } from './media.ts';

/** The most bytes of a text, and of an image, which are in memory as a whole. */
const maxBytes = { text: 1024 * 1024, image: 64 * 1024 * 1024 };

/** The file is not what its name says. */
export class NotAsNamed extends Error {}

/** Kind that a file can be shown as; undefined where it can only be saved. */
export function shownAs({ name, size, cid }: FileView): Shown | undefined {
  const shown = shownByName(name);
  // Ranges are of files that are fetched.
  if (shown === undefined || size === undefined || size === 0 || cid === undefined) return undefined;
  if (shown.as === 'text' || shown.as === 'image') return size <= maxBytes[shown.as] ? shown : undefined;
  return 'serviceWorker' in navigator ? shown : undefined;
}

/** Makes the elements that show a file. @throws NotAsNamed, and what the engine throws */
export async function previewOf(
  engine: Engine<Receiving>,
  { id, name, size = 0 }: FileView,
  { shown, signal }: { shown: Shown; signal: AbortSignal },
): Promise<HTMLElement[]> {
  if (shown.as === 'audio' || shown.as === 'video') {
    if (!isAsNamed(name, await engine.call('begin', { file: id }, { signal }))) throw new NotAsNamed();
    const player = document.createElement(shown.as);
    player.controls = true;
    player.preload = 'metadata';
    player.setAttribute('aria-label', name);
    player.src = await mediaAddress(engine, { file: id, size, type: shown.type, signal });
    signal.addEventListener('abort', () => player.removeAttribute('src'), { once: true });
    return [player];
  }
  const blob = await engine.call('save', { file: id, sink: { kind: 'memory' } }, { signal });
  const bytes = new Uint8Array((await blob?.arrayBuffer()) ?? new ArrayBuffer());
  if (!isAsNamed(name, bytes.subarray(0, 16))) throw new NotAsNamed();
  if (shown.as === 'text') return textElements(bytes);
  const image = document.createElement('img');
  image.alt = words.imageNamed(name);
  image.src = URL.createObjectURL(new Blob([bytes], { type: shown.type }));
  signal.addEventListener('abort', () => URL.revokeObjectURL(image.src), { once: true });
  await image.decode().catch(() => {
    throw new NotAsNamed();
  });
  return [image];
}

function textElements(bytes: Uint8Array): HTMLElement[] {
  const text = readableText(bytes);
  if (text === undefined) throw new NotAsNamed();
  const shown = document.createElement('pre');
  shown.dir = 'auto';
  shown.tabIndex = 0;
  shown.textContent = text;
  return [shown, copyButton(shown)];
}
