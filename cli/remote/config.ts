/** `config.json` of the data directory: the user's own choices, which Sealpin only reads. */
import { readFile, stat } from 'node:fs/promises';
import { SealpinError } from '../../shared/errors.ts';
import { errnoOf } from '../errno.ts';
import { readFlags } from '../io/input.ts';
import { jsonIn } from '../io/json-text.ts';
import { pathsIn } from '../io/paths.ts';

/** `config.json` after parsing. */
export type Config = {
  readonly v: 1;
  readonly service?: string | undefined;
  readonly apiKey?: string | undefined;
  /** URLs of trustless gateways, asked after the service. */
  readonly gateways: readonly string[];
  /** Set when other users can read a file that has an API key in it. */
  readonly warning?: string;
};

/**
 * Reads the configuration.
 * @returns the configuration; an empty one when there is no file
 * @throws config_invalid when it is not JSON of this version and shape
 */
export async function readConfig(dataDir: string): Promise<Config> {
  const { config: path } = pathsIn(dataDir);
  let text;
  try {
    text = await readFile(path, { encoding: 'utf8', flag: readFlags });
  } catch (error) {
    const code = errnoOf(error);
    // A missing directory is reported where something is written to it.
    if (code === 'ENOENT' || code === 'ENOTDIR') return { v: 1, gateways: [] };
    throw new SealpinError('config_invalid', `${path} cannot be read (${code ?? String(error)})`, { cause: error });
  }
  const config = parseConfig(text, path);
  const open = process.platform !== 'win32' && ((await stat(path)).mode & 0o077) !== 0;
  if (config.apiKey === undefined || !open) return config;
  const warning = `${path} holds an API key and is accessible to other users; fix it with: chmod 600 ${path}`;
  return { ...config, warning };
}

/** Line and column of the first character that cannot continue a JSON text. */
function jsonPlace(text: string): string {
  let good = 0;
  for (let bad = text.length + 1; bad - good > 1;) {
    const middle = Math.floor((good + bad) / 2);
    if (isStart(text.slice(0, middle))) good = middle;
    else bad = middle;
  }
  const lines = text.slice(0, good).split('\n');
  return `line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}`;
}

/**
 * Recognizes a possible beginning of JSON: V8 then fails at its end. Its message is not shown,
 * since it repeats the text.
 */
function isStart(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch (error) {
    const { message } = error as SyntaxError;
    const position = / at position (\d+)/.exec(message)?.[1];
    return message.startsWith('Unexpected end') || Number(position) === text.length;
  }
}

/** Parses the text of `config.json`. @param path only for the messages @throws config_invalid */
export function parseConfig(text: string, path: string): Config {
  const invalid = (detail: string, hint = 'fix it or move it out of the way; nothing was changed'): SealpinError =>
    new SealpinError('config_invalid', `${path}: ${detail}`, { hint });
  const json = jsonIn(text);
  if (json === undefined) throw invalid(`it is not JSON: see ${jsonPlace(text)}`);
  if (typeof json !== 'object' || json === null || Array.isArray(json)) throw invalid('it is not a JSON object');
  const { v, service, apiKey, gateways, ...others } = json as Record<string, unknown>;
  if (typeof v === 'number' && v > 1)
    throw invalid(
      `it has version ${v}, and this sealpin supports version 1`,
      'use the sealpin that wrote it, or a newer one',
    );
  if (v !== 1) throw invalid('it is missing "v": 1');
  const [unknown] = Object.keys(others);
  if (unknown !== undefined)
    throw invalid(`it has an unknown field ${JSON.stringify(unknown)}`, 'known fields: v, service, apiKey, gateways');
  if (service !== undefined && typeof service !== 'string') throw invalid('"service" must be a string');
  if (apiKey !== undefined && typeof apiKey !== 'string') throw invalid('"apiKey" must be a string');
  if (gateways !== undefined && !(Array.isArray(gateways) && gateways.every((url) => typeof url === 'string')))
    throw invalid('"gateways" must be a list of strings');
  return { v, service, apiKey, gateways: gateways ?? [] };
}
