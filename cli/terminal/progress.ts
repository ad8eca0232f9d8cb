/** One line on the terminal that shows the progress: share, bytes, rate and remaining time. */
import { sizeText } from './size.ts';
import { columnsOf, type OutputStream } from './streams.ts';

/** The progress of one transfer, by functions that may be passed on alone. */
export type Progress = {
  /** Counts bytes that are done; negative: bytes that were lost again. */
  readonly add: (bytes: number) => void;
  /** Removes the line until the next byte, so that another line can be written. */
  readonly hide: () => void;
  /** Removes the line for good. */
  readonly done: () => void;
};

const nothing = (): void => undefined;
export const silentProgress: Progress = { add: nothing, hide: nothing, done: nothing };

/** The shortest time from one drawing to the next. */
const intervalMs = 100;
/** The longest one, so that a line that stalls counts all that came, and no longer looks fast. */
const stalledMs = 1000;

/** A time for people: `1:05` (minutes and seconds), `2:00:01`. */
export function timeText(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  const pad2 = (value: number): string => String(value).padStart(2, '0');
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return hours > 0 ? `${hours}:${pad2(minutes)}:${pad2(whole % 60)}` : `${minutes}:${pad2(whole % 60)}`;
}

/**
 * The line itself, cut to the width of the terminal.
 * @param o `bytes` done, `from` how many of them before the start, `total` bytes if known,
 * `elapsedMs` since the start, `columns` of the terminal; `amount` gives a number of bytes as text,
 * or of what else is counted
 */
export function progressLine(o: {
  label: string;
  bytes: number;
  from?: number;
  total: number | undefined;
  elapsedMs: number;
  columns: number;
  amount?: ((count: number) => string) | undefined;
}): string {
  const { amount = sizeText } = o;
  // Work that is not measured in bytes, such as deriving a key.
  if (o.total === undefined && o.bytes === 0) return o.label.slice(0, o.columns - 1);
  const rate = o.elapsedMs > 0 ? (Math.max(0, o.bytes - (o.from ?? 0)) * 1000) / o.elapsedMs : 0;
  const parts = [amount(o.bytes)];
  if (o.total !== undefined) parts[0] += ` of ${amount(o.total)}`;
  if (rate > 0) {
    parts.push(`${amount(rate)}/s`);
    if (o.total !== undefined && o.bytes < o.total) parts.push(`${timeText((o.total - o.bytes) / rate)} left`);
  }
  const text = `${o.label}  ${parts.join('  ')}`;
  if (o.total === undefined || o.total === 0) return text.slice(0, o.columns - 1);
  const share = Math.min(1, o.bytes / o.total);
  const percent = `${Math.floor(share * 100)}%`.padStart(4);
  const width = Math.min(30, o.columns - text.length - percent.length - 7);
  const filled = Math.round(share * width);
  const bar = width >= 5 ? `  [${'#'.repeat(filled)}${'-'.repeat(width - filled)}]` : '';
  return `${text}${bar} ${percent}`.slice(0, o.columns - 1);
}

/**
 * A bar on a terminal, drawn ten times a second at most and once at least. `from`: how many of the
 * `bytes` are done already; `amount` as for its line.
 */
export function progressBar(o: {
  stderr: OutputStream;
  label: string;
  bytes: number | undefined;
  from: number;
  amount?: ((count: number) => string) | undefined;
  now: () => number;
}): Progress {
  const start = o.now();
  let bytes = o.from;
  let drawn = 0;
  let shown = false;
  let isDone = false;
  const draw = (): void => {
    drawn = o.now();
    shown = true;
    const line = progressLine({ ...o, bytes, total: o.bytes, elapsedMs: drawn - start, columns: columnsOf(o.stderr) });
    o.stderr.write(`\r\u001B[K${line}`);
  };
  const hide = (): void => {
    if (shown) o.stderr.write('\r\u001B[K');
    shown = false;
  };
  draw();
  const redrawing = setInterval(() => shown && draw(), stalledMs).unref();
  return {
    add(more) {
      bytes += more;
      if (!isDone && o.now() - drawn >= intervalMs) draw();
    },
    hide,
    done() {
      isDone = true;
      clearInterval(redrawing);
      hide();
    },
  };
}
