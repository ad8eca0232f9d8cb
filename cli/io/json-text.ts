import { SealpinError } from '../../shared/errors.ts';

/** The value of a text that should be JSON; undefined where it is something else. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's error could repeat what it read.
    return undefined;
  }
}

/** The value of a response that should be JSON. @throws service_answer where it is not */
export async function jsonOf(response: Pick<Response, 'text'>): Promise<unknown> {
  const value = jsonIn(await response.text());
  if (value === undefined)
    throw new SealpinError('service_answer', 'the service answers with something that is no JSON');
  return value;
}
