/** The value of a text that should be JSON; undefined where it is something else. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's error could repeat what it read.
    return undefined;
  }
}
