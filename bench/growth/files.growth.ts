/** The time of a page of the list and of one GET, by the files in the account. */
import { interleave } from '../figure.ts';
import { ladder, line, textOf, type Axis, type Growth, type Run, type Series } from './series.ts';
import { startService } from '../../testkit/service.ts';
import { filled, filledAccount } from '../worker-fixture.ts';

const x: Axis = { what: 'files in the account', base: 10 };

export const growth: Growth = { run: files };

async function* files({ quick, step }: Run): AsyncGenerator<Series> {
  const counts = ladder(10, 100_000, 10).slice(0, quick ? 2 : undefined);
  const rounds = quick ? 1 : 9;
  const page = line('a page of 10 of the list', 'time', 'ms');
  const one = line('GET of one file, ?data=false', 'time', 'ms');
  const service = await startService({ entry: filled });
  try {
    const tasks: Record<string, () => Promise<number>> = {};
    for (const count of counts) {
      step(`files: an account of ${textOf(count, x)}`);
      const account = await filledAccount(service, count);
      tasks[`page ${count}`] = account.page;
      tasks[`one ${count}`] = account.one;
    }
    step(`files: ${rounds} rounds`);
    for (const [name, sample] of Object.entries(await interleave(tasks, rounds))) {
      const [kind, count] = name.split(' ');
      (kind === 'page' ? page : one).points.push({ x: Number(count), ...sample, rounds });
    }
  } finally {
    await service.close();
  }
  yield {
    name: 'files',
    title: 'Time of a request to the service, by the files in the account',
    x,
    lines: [page, one],
  };
}
