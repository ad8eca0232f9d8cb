/** The JSON bodies of all requests but uploads. */
import * as v from 'valibot';
import { SealpinError } from '../../shared/errors.ts';
import { readAll } from '../../shared/streams/read-all.ts';
import { invalidRequest } from './validation.ts';

/** Bytes of a body, unless a route takes more. */
const defaultBytes = 64 * 1024;
const maxDepth = 8;

/**
 * Reads a JSON body of at most eight levels.
 * @param shape what the body has to be
 * @param maxBytes of the body; 64 KiB by default
 * @throws too_large, invalid_json, invalid_request (another shape)
 */
export async function readJson<S extends v.GenericSchema>(
  request: Request,
  shape: S,
  maxBytes = defaultBytes,
): Promise<v.InferOutput<S>> {
  const result = v.safeParse(shape, await parseBody(request, maxBytes));
  if (!result.success) throw invalidRequest('body', result.issues);
  return result.output;
}

async function parseBody(request: Request, maxBytes: number): Promise<unknown> {
  const bytes = await readAll(request.body, maxBytes, () => {
    return new SealpinError('too_large', `the body may have at most ${maxBytes} bytes`);
  });
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  try {
    const json = decoder.decode(bytes);
    if (depthOf(json) > maxDepth)
      throw new SealpinError('invalid_json', `the JSON may have at most ${maxDepth} levels`);
    return JSON.parse(json) as unknown;
  } catch (cause) {
    throw cause instanceof SealpinError ? cause : new SealpinError('invalid_json', undefined, { cause });
  }
}

/** Levels of a JSON text, counted before it is parsed; brackets inside strings do not count. */
function depthOf(json: string): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  // Not a regular expression: one that matches whole strings starts over at each quote of a string without an end.
  for (let index = 0; index < json.length; index += 1) {
    const char = json[index];
    if (inString) {
      if (char === '\\') index += 1;
      else if (char === '"') inString = false;
    } else if (char === '"') inString = true;
    else if (char === '[' || char === '{') {
      depth += 1;
      deepest = Math.max(deepest, depth);
    } else if (char === ']' || char === '}') depth -= 1;
  }
  return deepest;
}
