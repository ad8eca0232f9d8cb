/**
 * Transcripts: a command line, what it says and what it leaves, in files that read like a session
 * (cli/test/scripts/README.md explains the marks). This is their parser and player.
 */
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { sealpin as asProcess } from './local/harness.ts';
import { hostile, json } from './hostile.ts';
import { atTerminal, type Step } from './pty.ts';
import { run } from './environment.ts';
import { present } from '../../testkit/present.ts';

type Expected = { readonly stdout: string[]; readonly stderr: string[]; readonly screen: string[]; exit: number };
export type Play = { readonly directory: string; readonly home: string };

/** Patterns that marks in an expected line stand for. */
const marks: Readonly<Record<string, string>> = {
  blob: 'b[a-z2-7]{58}',
  uuid: '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}',
  recipient: 'age1tag1[0-9a-z]+',
  apikey: 'sp_[0-9A-Za-z]{71}',
  keyid: '[0-9a-f]{16}',
  accountid: '[0-9A-Za-z]{22}',
  port: '\\d+',
  n: '\\d+',
  day: '\\d{4}-\\d{2}-\\d{2}',
  time: '\\d{4}-\\d{2}-\\d{2}[T ]\\d{2}:\\d{2}(?::\\d{2}\\.\\d{3}Z)?',
  words: '[a-z]+(?:-[a-z]+){9}',
  link: 'http://127\\.0\\.0\\.1:\\d+/s#1[0-9A-Za-z]{71}',
  inbox: 'http://127\\.0\\.0\\.1:\\d+/drop#sp_[0-9A-Za-z]{71}\\.age1tag1[0-9a-z]+',
  invitation: 'http://127\\.0\\.0\\.1:\\d+/send#sp_[0-9A-Za-z]{71}',
  share: '[0-9A-Za-z]{22}',
  qr: '[█▀▄ ]+',
  any: '.*',
};

const escaped = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);

/** Plays one script in a directory; throws at the first line that is not as it says. */
export class Player {
  readonly #play: Play;
  readonly #names = new Map<string, string>();
  #env: Record<string, string>;

  constructor(play: Play) {
    this.#play = play;
    this.#env = { SEALPIN_HOME: play.home, HOME: play.directory };
  }

  async play(script: string): Promise<void> {
    const lines = script.split('\n');
    for (let at = 0; at < lines.length; at += 1) {
      const line = present(lines[at]);
      if (line === '' || line.startsWith('#')) continue;
      const block: string[] = [];
      while (lines[at + 1] !== undefined && /^(\||1\||2\||:|exit |type )/.test(present(lines[at + 1])))
        block.push(present(lines[(at += 1)]));
      try {
        await this.#step(line, block);
      } catch (error) {
        throw new Error(
          `line ${at - block.length + 1}: ${line}\n${error instanceof Error ? error.message : String(error)}`,
          { cause: error },
        );
      }
    }
  }

  async #step(line: string, block: readonly string[]): Promise<void> {
    const [mark = '', ...words] = split(this.#filled(line));
    if (mark === 'file') await this.#file(words, block);
    else if (mark === 'env') this.#setEnv(words);
    else if (mark === 'serve') await this.#serve(words, block);
    else if (mark === 'files') await this.#files(words);
    else if (mark === 'mode') await this.#mode(words);
    else if (mark === '$' || mark === '@' || mark === '%') await this.#command(mark, words, block);
    else throw new Error('the script has a line that is none of its marks');
  }

  /** `file NAME [MODE]`, with its lines after `| `. */
  async #file([name = '', mode = '0600']: string[], block: readonly string[]): Promise<void> {
    const text = block.map((line) => `${this.#filled(line.slice(2))}\n`).join('');
    await writeFile(join(this.#play.directory, name), text, { mode: Number.parseInt(mode, 8) });
  }

  #setEnv(words: readonly string[]): void {
    for (const word of words) {
      const [name = '', ...value] = word.split('=');
      if (word.includes('=')) this.#env[name] = value.join('=');
      else delete this.#env[name];
    }
  }

  /**
   * `serve METHOD /path STATUS`, with the JSON of the answer after `| `; further ones belong to the
   * same service.
   */
  readonly #routes: Record<string, Parameters<typeof hostile>[0][string]> = {};
  async #serve([method = '', path = '', status = '']: string[], block: readonly string[]): Promise<void> {
    const answer: unknown = JSON.parse(block.map((line) => this.#filled(line.slice(2))).join(''));
    const first = Object.keys(this.#routes).length === 0;
    this.#routes[`${method} ${path}`] = (request, response) => {
      request.resume();
      request.once('end', () => json(response, Number(status), answer));
    };
    if (!first) return;
    const { url } = await hostile(this.#routes);
    this.#env['SEALPIN_SERVICE'] = url;
    this.#env['SEALPIN_API_KEY'] = `sp_${'0'.repeat(71)}`;
  }

  async #files(words: readonly string[]): Promise<void> {
    same(
      (await readdir(this.#play.directory))
        .filter((name) => name !== 'home')
        .toSorted()
        .join(' '),
      words.toSorted().join(' '),
      'files',
    );
  }

  /** `mode NAME 0600`. */
  async #mode([name = '', mode = '']: string[]): Promise<void> {
    same(`0${((await stat(join(this.#play.directory, name))).mode & 0o777).toString(8)}`, mode, 'mode');
  }

  /** `$` in this process, `@` as a process, `%` at a terminal. `< NAME` and `> NAME` redirect. */
  async #command(mark: string, words: string[], block: readonly string[]): Promise<void> {
    if (words.shift() !== 'sealpin') throw new Error('a command begins with sealpin');
    const expected = this.#expected(block);
    if (mark === '%') return this.#screen(words, block, expected);
    const input = redirection(words, '<');
    const output = redirection(words, '>');
    const { directory } = this.#play;
    const stdin = input === undefined ? new Uint8Array() : await readFile(join(directory, input));
    const ran =
      mark === '@' ? await asProcess(words, this.#env) : await run(words, directory, { env: this.#env, stdin });
    const exit = 'code' in ran ? ran.code : ran.exit;
    if (output === undefined) this.#lines(ran.stdout, expected.stdout, 'standard output', ran.stderr);
    this.#lines(ran.stderr, expected.stderr, 'standard error');
    if (output !== undefined)
      await writeFile(join(directory, output), 'stdoutBytes' in ran ? ran.stdoutBytes : ran.stdout);
    same(String(exit), String(expected.exit), 'exit');
    return undefined;
  }

  async #screen(words: readonly string[], block: readonly string[], expected: Expected): Promise<void> {
    const steps = block.flatMap((line): Step[] => {
      const [, after, type] = /^type "(.*)" after "(.*)"$/.exec(line) ?? [];
      return after === undefined || type === undefined
        ? []
        : [{ after: type, type: JSON.parse(`"${after}"`) as string }];
    });
    const { exit, screen } = await atTerminal(words, { cwd: this.#play.directory, env: this.#env, steps });
    // A bar comes and goes in one line; what stands there at its end is what a person sees.
    const shown = screen
      .replaceAll('\r\n', '\n')
      .split('\n')
      .map((line) => stripVTControlCharacters(line.slice(line.lastIndexOf('\r') + 1)))
      .join('\n');
    this.#lines(shown, expected.screen, 'screen');
    same(String(exit), String(expected.exit), 'exit');
  }

  #expected(block: readonly string[]): Expected {
    const expected: Expected = { stdout: [], stderr: [], screen: [], exit: 0 };
    for (const line of block) {
      if (line.startsWith('1|')) expected.stdout.push(line.slice(3));
      else if (line.startsWith('2|')) expected.stderr.push(line.slice(3));
      else if (line.startsWith(':')) expected.screen.push(line.slice(2));
      else if (line.startsWith('exit ')) expected.exit = Number(line.slice(5));
    }
    return expected;
  }

  #lines(text: string, expected: readonly string[], where: string, beside = ''): void {
    const lines = text === '' ? [] : text.replace(/\n$/, '').split('\n');
    for (const [index, wanted] of expected.entries()) {
      const names: string[] = [];
      const pattern = escaped(this.#filled(wanted)).replaceAll(
        /<([a-z]+)(?:=([A-Z]+))?>/g,
        (whole, kind: string, name: string | undefined) => {
          const mark = marks[kind];
          if (mark === undefined) return whole;
          if (name === undefined) return mark;
          names.push(name);
          return `(${mark})`;
        },
      );
      const match = new RegExp(`^${pattern}$`).exec(lines[index] ?? '\u0000');
      if (match === null)
        throw new Error(
          `${where}, line ${index + 1}\n  expected: ${wanted}\n  was:      ${lines[index] ?? '(nothing)'}\n` +
            `all of it:\n${text}${beside}`,
        );
      for (const [at, name] of names.entries()) this.#names.set(name, present(match[at + 1]));
    }
    if (lines.length > expected.length)
      throw new Error(`${where} has more lines:\n${lines.slice(expected.length).join('\n')}`);
  }

  /** Puts in what `<kind=NAME>` has caught, and the two directories. */
  #filled(text: string): string {
    return text.replaceAll(
      /\$([A-Z]+)\b/g,
      (whole, name: string) =>
        this.#names.get(name) ?? { DIR: this.#play.directory, HOME: this.#play.home }[name] ?? whole,
    );
  }
}

function same(was: string, expected: string, what: string): void {
  if (was !== expected) throw new Error(`${what}\n  expected: ${expected}\n  was:      ${was}`);
}

function redirection(words: string[], arrow: '<' | '>'): string | undefined {
  const at = words.indexOf(arrow);
  return at < 0 ? undefined : words.splice(at, 2)[1];
}

/** Words as a shell cuts them, with single quotes. */
function split(line: string): string[] {
  return Array.from(line.matchAll(/(?:'([^']*)'|(\S+))(?:\s+|$)/g), ([, quoted, bare]) => quoted ?? bare ?? '');
}

/**
 * Makes a pattern of a session at a terminal for a document that shows it: its commands after `$`,
 * and what was on the screen. The port of a service that a test starts is left out.
 */
export function sessionPattern(script: string): RegExp {
  const lines = script.split('\n').flatMap((line) => {
    if (line.startsWith('% ')) return [`$ ${line.slice(2).replace(' --port 0', '')}`];
    return line.startsWith(': ') ? [line.slice(2).trimEnd()] : [];
  });
  const pattern = escaped(lines.join('\n'))
    .replaceAll(/<([a-z]+)(?:=([A-Z]+))?>/g, (whole, kind: string, name: string | undefined) => {
      const mark = marks[kind] ?? whole;
      return name === undefined ? mark : `(?<${name}>${mark})`;
    })
    .replaceAll(/\\\$([A-Z]+)\b/g, String.raw`\k<$1>`);
  return new RegExp(`^${pattern}$`);
}
