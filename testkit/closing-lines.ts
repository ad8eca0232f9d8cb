/**
 * Reporter of Vitest: after everything else a line for each test that was skipped, that passed only
 * when CI ran it again, or that failed, and then the totals. A log that lost its beginning still
 * says what failed.
 */
import { stripVTControlCharacters } from 'node:util';
import type { Reporter, TestModule } from 'vitest/node';

type ReportedError = Readonly<{ message: string; name?: string | undefined }>;

const maxLineLength = 300;

function failedLine(what: string, errors: readonly ReportedError[] | undefined): string {
  const [error] = errors ?? [];
  const text = error === undefined ? '' : [error.name, error.message].filter(Boolean).join(': ');
  const reason = stripVTControlCharacters(text).trimStart().split('\n')[0] ?? '';
  return `FAILED: ${what}${reason === '' ? '' : `: ${reason.slice(0, maxLineLength)}`}`;
}

function linesOf(module: TestModule): { notes: string[]; failures: string[]; passed: number } {
  const file = `[${module.project.name}] ${module.relativeModuleId}`;
  const notes: string[] = [];
  // What a file or a hook of a suite throws belongs to no test.
  const failures = module.errors().map((error) => failedLine(file, [error]));
  for (const suite of module.children.allSuites())
    failures.push(...suite.errors().map((error) => failedLine(`${file}: ${suite.fullName}`, [error])));
  let passed = 0;
  for (const test of module.children.allTests()) {
    const result = test.result();
    if (result.state === 'passed') passed += 1;
    else if (result.state === 'skipped')
      notes.push(`not run: ${result.note === undefined ? test.name : `${test.name}: ${result.note}`}`);
    else failures.push(failedLine(`${file}: ${test.fullName}`, result.errors));
    if (test.diagnostic()?.flaky) notes.push(`failed at first, passed again: ${file}: ${test.fullName}`);
  }
  return { notes, failures, passed };
}

export const closingLines: Reporter = {
  onTestRunEnd(modules, errors) {
    const all = modules.map(linesOf);
    const notes = new Set(all.flatMap((each) => each.notes));
    const failures = [
      ...errors.map((error) => failedLine('outside of all tests', [error])),
      ...all.flatMap((each) => each.failures),
    ];
    const passed = all.reduce((sum, each) => sum + each.passed, 0);
    // After the summary of the default reporter.
    const lines = [...notes, ...failures, `${passed} passed, ${failures.length} failed`];
    setTimeout(() => process.stdout.write(`${lines.join('\n')}\n`), 0);
  },
};
