/** Suites in a bare page: what runs there, and what became of it. */
import { webProvider, type CryptoProvider } from '../../shared/crypto/index.ts';
import type { Tool } from '../assertions.ts';

type Suite = (tool: Tool, provider: CryptoProvider) => void;

export type Outcome = { passed: string[]; failed: string[]; notes: string[] };

/** Lets a page run suites by name, as `sealpin.run`, and tell their names. */
export function exposeSuites(suites: Record<string, Suite>): void {
  const run = async (name: string): Promise<Outcome> => {
    const suite = suites[name];
    if (suite === undefined) throw new TypeError(`there is no suite ${name}`);
    return outcomeOf(suite);
  };
  Object.assign(globalThis, { sealpin: { suites: Object.keys(suites), run } });
}

/** Runs one suite, test after test. */
async function outcomeOf(suite: Suite): Promise<Outcome> {
  const tests: [string, () => void | Promise<void>][] = [];
  const outcome: Outcome = { passed: [], failed: [], notes: [] };
  suite(
    { test: (title, body) => tests.push([title, body]), note: (line) => outcome.notes.push(line), long: false },
    webProvider,
  );
  for (const [title, body] of tests) {
    try {
      await body();
      outcome.passed.push(title);
    } catch (error) {
      outcome.failed.push(
        `${title}: ${error instanceof Error ? (error.stack ?? error.message) : 'something that is no error'}`,
      );
    }
  }
  return outcome;
}
