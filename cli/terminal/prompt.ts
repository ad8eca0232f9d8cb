/** The terminal of the person, even if standard input and output are pipes. */
import { openSync } from 'node:fs';
import type { ReadStream, WriteStream } from 'node:tty';
import { SealpinError } from '../../shared/errors.ts';
import { visible, write } from './output.ts';

/** An open terminal that questions can be asked at. */
export type Terminal = NonNullable<ReturnType<typeof openTerminal>>;

/**
 * The controlling terminal of this process; undefined when there is none (cron, CI, a container).
 */
function openTerminal() {
  let descriptor;
  try {
    descriptor = openSync('/dev/tty', 'r+');
  } catch {
    // There is no terminal, or (on Windows) no such path.
    return undefined;
  }
  // Loaded only where somebody is asked: most commands with a password or a question ask nobody.
  const tty = process.getBuiltinModule('node:tty');
  const input = new tty.ReadStream(descriptor);
  const output = new tty.WriteStream(descriptor);
  return {
    /** Asks a question and reads one line that is not shown. */
    ask: (question: string, signal: AbortSignal) => askLine({ input, output, question, signal, isShown: false }),
    /** The same with a line that is shown. */
    askShown: (question: string, signal: AbortSignal) => askLine({ input, output, question, signal, isShown: true }),
    close: () => input.destroy(),
  };
}

/**
 * Uses the terminal of the person.
 * @param o.interactive whether a person may be asked; `missing` and `hint`: the error where there
 * is no terminal
 * @throws usage without a terminal, and what `use` throws
 */
export async function withTerminal<T>(
  o: { readonly interactive: boolean; readonly missing: string; readonly hint: string },
  use: (terminal: Terminal) => Promise<T>,
): Promise<T> {
  const terminal = o.interactive ? openTerminal() : undefined;
  if (terminal === undefined) throw new SealpinError('usage', o.missing, { hint: o.hint });
  try {
    return await use(terminal);
  } finally {
    terminal.close();
  }
}

const interrupt = '\u0003';
const endOfInput = '\u0004';
const erase = new Set(['\u007F', '\b']);
const eraseLine = '\u0015';
/** Moves back over a character and covers it. */
const rubOut = '\b \b';
const enter = new Set(['\r', '\n']);
/** More than any password that a person types. */
const limitChars = 4096;

async function askLine(o: {
  input: ReadStream;
  output: WriteStream;
  question: string;
  signal: AbortSignal;
  isShown: boolean;
}): Promise<string> {
  const { input, output, signal } = o;
  signal.throwIfAborted();
  input.setRawMode(true);
  await write(output, `${visible(o.question)}: `);
  try {
    return await readLine(input, signal, (text) => void (o.isShown && output.write(text)));
  } finally {
    input.setRawMode(false);
    input.pause();
    await write(output, '\n');
  }
}

/** @param echo gets what changes the line, as a terminal shows it */
function readLine(input: ReadStream, signal: AbortSignal, echo: (text: string) => void): Promise<string> {
  return new Promise((resolve, reject) => {
    const decoder = new TextDecoder('utf-8', { fatal: true });
    let line: string[] = [];
    const finish = (settle: () => void): void => {
      input.off('data', onData);
      input.off('end', onEnd);
      signal.removeEventListener('abort', onAbort);
      settle();
    };
    const fail = (error: Error): void => finish(() => reject(error));
    const onAbort = (): void => fail(signal.reason as Error);
    const onEnd = (): void => fail(new SealpinError('interrupted', 'the terminal was closed'));
    const onData = (bytes: Uint8Array): void => {
      let text;
      try {
        text = decoder.decode(bytes, { stream: true });
      } catch {
        const hint = 'set the terminal to UTF-8';
        return fail(new SealpinError('password_invalid', 'the typed text is not valid UTF-8', { hint }));
      }
      for (const char of text) {
        if (enter.has(char)) return finish(() => resolve(line.join('')));
        if (char === interrupt) return fail(new SealpinError('interrupted', 'interrupted at the terminal'));
        if (char === endOfInput && line.length === 0) return fail(new SealpinError('interrupted', 'nothing was typed'));
        if (char === eraseLine) {
          echo(rubOut.repeat(line.length));
          line = [];
        } else if (erase.has(char)) {
          if (line.pop() !== undefined) echo(rubOut);
        } else if (line.length < limitChars && char >= ' ') {
          line.push(char);
          echo(char);
        }
      }
      return undefined;
    };
    signal.addEventListener('abort', onAbort, { once: true });
    input.on('data', onData);
    input.on('end', onEnd);
    input.resume();
  });
}
