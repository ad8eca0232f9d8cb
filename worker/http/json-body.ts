/** The JSON bodies of all requests but uploads. */
import * as v from 'valibot';
import { SealpinError } from '../../shared/errors.ts';
import { observed } from '../../shared/streams/pulled.ts';
import { readAll } from '../../shared/streams/read-all.ts';
import { arrivedBytes, essenceOf } from './body-headers.ts';
import { invalidRequest } from './validation.ts';

/** Bytes of a body, unless a route takes more. */
const defaultBytes = 64 * 1024;
const maxDepth = 8;

/** Types that mean JSON here: programs send the others where nobody names a type. */
const jsonTypes = ['application/json', 'text/plain', 'application/x-www-form-urlencoded', ''];

/**
 * Reads a JSON body of at most eight levels.
 * @param shape what the body must be
 * @param maxBytes of the body; 64 KiB by default
 * @throws unsupported_media_type, too_large, invalid_json, invalid_request (another shape)
 */
export async function readJson<S extends v.GenericSchema>(request: Request, shape: S, maxBytes = defaultBytes) {
  if (!jsonTypes.includes(essenceOf(request.headers)))
    throw new SealpinError('unsupported_media_type', 'the body has another type than application/json', {
      hint: 'send Content-Type: application/json',
    });
  const result = v.safeParse(shape, await parseBody(request, maxBytes));
  if (!result.success) throw invalidRequest('body', result.issues);
  return result.output;
}

async function parseBody(request: Request, maxBytes: number): Promise<unknown> {
  const body =
    request.body &&
    observed(request.body, {
      onChunk: ({ length }) => void arrivedBytes.set(request, (arrivedBytes.get(request) ?? 0) + length),
    });
  const bytes = await readAll(body, maxBytes, () => {
    return new SealpinError('too_large', `the body may have at most ${maxBytes} bytes`);
  });
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  try {
    const json = decoder.decode(bytes);
    const name = repeatedName(json);
    const value: unknown = JSON.parse(json);
    if (name !== undefined)
      throw new SealpinError(
        'invalid_json',
        `there are two members ${JSON.stringify(name.slice(0, 40).toWellFormed())}`,
      );
    return value;
  } catch (cause) {
    throw cause instanceof SealpinError ? cause : new SealpinError('invalid_json', undefined, { cause });
  }
}

/**
 * A name that an object in a JSON text has twice: programs differ in which of them counts. The text
 * need not be valid.
 * @throws invalid_json for more levels than a body may have
 */
function repeatedName(json: string): string | undefined {
  const open: Set<string>[] = [];
  let repeated: string | undefined;
  // Not a regular expression: one that matches whole strings starts over at each quote of a string
  // without an end.
  for (let index = 0; index < json.length; index += 1) {
    const char = json[index];
    if (char === '{' || char === '[') open.push(new Set());
    else if (char === '}' || char === ']') open.pop();
    if (open.length > maxDepth) throw new SealpinError('invalid_json', `the JSON may have at most ${maxDepth} levels`);
    if (char !== '"') continue;
    const start = index;
    for (index += 1; index < json.length && json[index] !== '"'; index += 1) if (json[index] === '\\') index += 1;
    const text = json.slice(start, index + 1);
    while (' \t\r\n'.includes(json[index + 1] ?? '-')) index += 1;
    if (json[index + 1] !== ':') continue;
    const name = JSON.parse(text) as string;
    if (open.at(-1)?.has(name)) repeated ??= name;
    open.at(-1)?.add(name);
  }
  return repeated;
}
