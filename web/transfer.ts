/** The state in which files are encrypted and sent: how far it is, and a button that ends it. */
import { percentText } from './amounts.ts';
import type { CallOptions } from './engine-client.ts';
import { followProgress } from './progress-text.ts';
import { announce, byId, locale, onClick, setText, show, words } from './states.ts';
import { whileOpen } from './stay-open.ts';

/** Ends what is sent. */
let stop = new AbortController();
onClick('sending-cancel', () => stop.abort());

/**
 * Shows the progress of `work`, and hands out its result. The button aborts the signal that `work`
 * gets.
 * @param names of the files, in the order in which they are sent
 */
export function transfer<T>(work: (options: CallOptions) => Promise<T>, names: readonly string[] = []): Promise<T> {
  stop = new AbortController();
  const bar = byId('sending-bar', HTMLProgressElement);
  const amount = byId('sending-amount', HTMLParagraphElement);
  const current = byId('sending-file', HTMLParagraphElement);
  bar.removeAttribute('value');
  setText(amount, undefined);
  current.hidden = true;
  show('sending');
  const progress = followProgress(names[0] ?? '', (text) => setText(amount, text));
  const onProgress = (bytes: number, total?: number, file?: number): void => {
    const fraction = progress.update(bytes, total);
    const name = names[file ?? 0];
    current.hidden = name === undefined;
    if (name !== undefined)
      current.textContent = names.length > 1 ? words.fileOf((file ?? 0) + 1, names.length, name) : name;
    if (fraction === undefined) return;
    bar.value = fraction;
    announce(percentText(fraction, locale), { isProgress: true });
  };
  return whileOpen(() => work({ onProgress, signal: stop.signal })).finally(() => progress.end());
}
