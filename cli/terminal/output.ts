/**
 * All output. The rules: stdout carries data only, and all messages for people go to stderr with
 * the prefix `sealpin:`. `--json` makes stdout one object and stderr, after a failure, the problem
 * object of the API; warnings then travel in that object. `--quiet` silences notes and progress,
 * never warnings and errors. Colours and progress only on a terminal.
 */
import type { Writable } from 'node:stream';
import { defaultMessage, exitOf, SealpinError } from '../../shared/errors.ts';
import { toProblem } from '../../shared/problem-object.ts';
import { errnoOf, systemFailure } from '../errno.ts';
import { hintFor } from './hints.ts';
import { withDataDirectory } from './local-commands.ts';
import { type Progress, progressBar, silentProgress } from './progress.ts';
import { countText } from './size.ts';
import { columnsOf, type OutputStream } from './streams.ts';
import { wrapMessage } from './wrap.ts';

/** Destination and form of the output. */
export type OutputOptions = {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly json: boolean;
  readonly quiet: boolean;
  readonly now: () => number;
  /** Named by the commands in messages that act on the local service (`withDataDirectory`). */
  readonly dataDir?: string | undefined;
  readonly onFailure?: ((problem: object) => void) | undefined;
};

/** Output of a command. */
export interface Output {
  readonly json: boolean;
  /** Silences notes. */
  readonly quiet: boolean;
  /**
   * Prints the object with `--json`, else the lines, escaped, if there are any. Settles when stdout
   * has taken it.
   */
  result(object: Readonly<Record<string, unknown>>, lines: readonly string[]): Promise<void>;
  /**
   * Tells something worth knowing, unless `--quiet` or `--json`.
   * @param lines below it, never broken
   */
  note(text: string, lines?: readonly string[]): void;
  /** Something that may do harm. */
  warn(text: string): void;
  /** Prints what exists nowhere else, such as a generated password: always on stderr. */
  secret(text: string): void;
  /**
   * A bar on a terminal. `bytes`: how many there will be, if known; `from`: how many of them are
   * done already. `amount`: what is counted, in words, where that is not bytes.
   */
  progress(label: string, bytes?: number, o?: { from?: number; amount?: (count: number) => string }): Progress;
  /** Names `--data-dir`, if given, in the commands of a message (`withDataDirectory`). */
  here(text: string): string;
  /** Reports what went wrong. @returns the exit code */
  failure(thrown: unknown): number;
}

/**
 * Escapes untrusted text (a filename, a server's message) for a terminal: control characters and
 * characters that change the direction of text (Unicode general categories Cc and Cf, plus line
 * separators).
 */
export function visible(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`);
}

/**
 * JSON in one line that is safe on a terminal: `JSON.stringify` does not escape C1 controls, nor
 * characters that change the direction of text. It parses to the same value.
 */
export function visibleJson(value: unknown): string {
  return JSON.stringify(value).replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (char) =>
    Array.from({ length: char.length }, (_, at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''),
  );
}

/** A failed write to standard output or error, as an error for people. */
export function streamFailure(error: Error): SealpinError {
  const code = errnoOf(error);
  if (code === 'ENOSPC')
    return new SealpinError('disk_full', 'the disk that standard output writes to is full', { cause: error });
  const closed = code === 'EPIPE' ? 'the program that reads the output has closed it' : undefined;
  const detail = closed ?? `standard output cannot be written (${code ?? error.name})`;
  return new SealpinError('file_unwritable', detail, { cause: error });
}

/** Writes and waits until the stream has taken it. @throws file_unwritable, disk_full */
export function write(stream: Writable, data: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(data, (error) => (error ? reject(streamFailure(error)) : resolve()));
  });
}

/** Anything that was thrown, as a SealpinError; what is not one is a bug. */
function toSealpinError(thrown: unknown): SealpinError {
  if (thrown instanceof SealpinError) return thrown;
  const failure = systemFailure(thrown);
  if (failure !== undefined) return failure;
  const detail = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : 'a non-Error value was thrown';
  return new SealpinError('internal', `this is a bug in sealpin (${visible(detail)})`, {
    reason: 'bug',
    cause: thrown,
  });
}

/** When to try again, after a hint. */
function waitText({ retryAfterSeconds: seconds }: SealpinError): string {
  return seconds === undefined ? '' : ` (try again in ${countText(seconds, 'second')})`;
}

/** Makes the output of one command. */
export function createOutput(o: OutputOptions): Output {
  const coloured = o.stderr.isTTY === true && !o.env['NO_COLOR'] && o.env['TERM'] !== 'dumb';
  const paint = (code: number, text: string): string => (coloured ? `\u001B[${code}m${text}\u001B[0m` : text);
  const here = (text: string): string => withDataDirectory(text, o.dataDir);
  const warnings: string[] = [];
  const jsonLine = (object: object) => `${visibleJson(warnings.length > 0 ? { ...object, warnings } : object)}\n`;
  let bar: Progress | undefined;
  const print = (text: string, label?: { readonly word: string; readonly colour: number }): void => {
    bar?.hide();
    const start = label === undefined ? 'sealpin: ' : `sealpin: ${label.word}: `;
    const message = start + visible(here(text));
    const shown = o.stderr.isTTY === true ? wrapMessage(message, columnsOf(o.stderr)).join('\n') : message;
    const word = `${label?.word}:`;
    o.stderr.write(`${label === undefined ? shown : shown.replace(word, paint(label.colour, word))}\n`);
  };
  return {
    json: o.json,
    quiet: o.quiet || o.json,
    here,
    async result(object, lines) {
      bar?.hide();
      if (o.json) await write(o.stdout, jsonLine(object));
      else if (lines.length > 0) await write(o.stdout, `${lines.map(visible).join('\n')}\n`);
    },
    note(text, lines = []) {
      if (o.quiet || o.json) return;
      print(text);
      for (const line of lines) o.stderr.write(`  ${visible(line)}\n`);
    },
    warn(text) {
      if (o.json) warnings.push(here(text));
      else print(text, { word: 'warning', colour: 33 });
    },
    secret(text) {
      bar?.hide();
      o.stderr.write(`sealpin: ${text}\n`);
    },
    progress(label, bytes, { from = 0, amount } = {}) {
      bar?.done();
      bar =
        o.quiet || o.json || o.stderr.isTTY !== true
          ? silentProgress
          : progressBar({ stderr: o.stderr, label: visible(label), bytes, from, amount, now: o.now });
      return bar;
    },
    failure(thrown) {
      bar?.done();
      const error = toSealpinError(thrown);
      const hint = hintFor(error);
      const detail = error.message === defaultMessage(error.code) ? undefined : error.message;
      o.onFailure?.(toProblem(error, { detail, hint }));
      if (o.json) o.stderr.write(jsonLine(toProblem(error, { detail, hint: hint && here(hint) })));
      else {
        print(error.message, { word: 'error', colour: 31 });
        if (hint !== undefined) print(`${hint}${waitText(error)}`, { word: 'hint', colour: 36 });
      }
      return exitOf(error);
    },
  };
}
