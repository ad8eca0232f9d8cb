/** The state in which files are encrypted and sent: how far it is, and a button that ends it. */
import { percentText } from './amounts.ts';
import type { CallOptions } from './engine-client.ts';
import { progressText } from './progress-text.ts';
import { announce, byId, locale, setText, show, words } from './states.ts';
import { whileOpen } from './stay-open.ts';

/**
 * Shows the progress of `work`, and hands out its result. The button aborts the signal that `work`
 * gets.
 */
export function transfer<T>(work: (options: CallOptions) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  const bar = byId('sending-bar', HTMLProgressElement);
  const amount = byId('sending-amount', HTMLParagraphElement);
  const startedAt = performance.now();
  bar.removeAttribute('value');
  setText(amount, words.keepOpen);
  const cancel = byId('sending-cancel', HTMLButtonElement);
  const abort = (): void => stop.abort();
  cancel.addEventListener('click', abort);
  show('sending');
  const onProgress = (bytes: number, total?: number): void => {
    setText(amount, progressText(bytes, { total, startedAt }));
    if (total === undefined) return;
    bar.value = total === 0 ? 1 : bytes / total;
    announce(percentText(bar.value, locale), { isProgress: true });
  };
  return whileOpen(() => work({ onProgress, signal: stop.signal })).finally(() =>
    cancel.removeEventListener('click', abort),
  );
}
