/** `sealpin migrate`: the operator moves files from one pinning service to another. */
import type { Migration, SurveyedPin } from '../../shared/api.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { sleep } from '../../shared/streams/timing.ts';
import { defineCommand, positional, toggle } from '../command.ts';
import type { Context } from '../context.ts';
import { troubleOf } from '../files/trouble-line.ts';
import { embeddedId, kuboId } from '../local/backends/external-kubo.ts';
import { operatedService } from '../remote/client.ts';
import { operator, type Operator } from '../remote/operator-routes.ts';
import { findService } from '../remote/service-choice.ts';
import { factLines, shownTime } from '../terminal/fitted-row.ts';
import { hinting } from '../terminal/hints.ts';

/** Pauses between polls, in ms: a tenth of the time so far, since each wakes 256 objects. */
const migrationPollMs = { least: 250, most: 10_000, share: 0.1 };
/** Polls in a row at which all that was left had failed, and could not be copied so far. */
const refusalsInRow = 5;

export const command = defineCommand({
  about:
    'Each file is copied, read back byte for byte, and only then unpinned where it was. The service ' +
    'does it by itself: this command begins it, and shows how far it is until it is done. On the ' +
    'local service, without names: from the built-in node to the Kubo of --kubo-api.',
  args: {
    from: positional('The ID of the pinning service that is to hold nothing', { required: false }),
    to: positional('The one that takes its files', { required: false }),
    background: toggle('Return once it has begun'),
    status: toggle('Show how far all migrations are, and begin none'),
    cancel: toggle('End it: what has moved stays there, and the rest where it was'),
  },
  service: true,
  examples: [
    { command: 'sealpin migrate', does: 'Into the Kubo that the local service was started with' },
    { command: 'sealpin migrate kubo local', does: 'Back, so that the Kubo can be left' },
    { command: 'sealpin migrate kubo second --background', does: 'Between two entries of BACKENDS' },
    { command: 'sealpin migrate --status', does: 'How far they are' },
  ],
  async run({ args, context }) {
    const [one, other] = (['background', 'status', 'cancel'] as const).filter((flag) => args[flag]);
    if (other !== undefined)
      throw new SealpinError('usage', `--${one} and --${other} do not go together`, {
        hint: 'see: sealpin migrate --help',
      });
    const routes = operator(await operatedService(context), context);
    if (args.status) return await showAll(routes, context);
    const { from, to } = await endsOf(args, context);
    if (args.cancel) return await cancelMigration(routes, { from, to }, context);
    const begun = await beginMigration(routes, { from, to }, args.from === undefined);
    const migration = args.background ? begun : await follow(routes, begun, context);
    const refused = await refusedOf(routes, migration, context);
    context.output.note(
      migration.state === 'done'
        ? `done: ${from} holds nothing of ours any more`
        : 'continues in the background; progress: sealpin migrate --status',
    );
    await context.output.result({ migration, refused }, migrationLines(migration, context));
    return migration.state === 'done' || args.background ? 0 : 1;
  },
});

type Ends = { readonly from: string; readonly to: string };

/** Both services; those of the local service need no names. @throws usage */
async function endsOf({ from, to }: { readonly [end in keyof Ends]: string | undefined }, context: Context) {
  if (from !== undefined && to !== undefined) return { from, to };
  if (from === undefined && (await findService(context)).local === true) return { from: embeddedId, to: kuboId };
  throw new SealpinError('usage', 'a migration is from one pinning service to another', {
    hint: 'give both IDs, as in BACKENDS: sealpin migrate <from> <to>',
  });
}

/** @throws usage for a local service without a Kubo, and the problem that the service reports */
async function beginMigration(routes: Operator, { from, to }: Ends, isUnnamed: boolean): Promise<Migration> {
  try {
    return await routes.migrate(from, to);
  } catch (error) {
    if (!isUnnamed || !isSealpinError(error, 'invalid_request')) throw error;
    throw new SealpinError('usage', 'the local service has no Kubo to which its files could move', {
      hint: 'start it with one: sealpin start --kubo-api <url>',
      cause: error,
    });
  }
}

async function showAll(routes: Operator, context: Context): Promise<number> {
  const { output } = context;
  const migrations = await routes.migrations();
  if (migrations.length === 0) output.note('there has been no migration');
  const refused: SurveyedPin[] = [];
  for (const migration of migrations) refused.push(...(await refusedOf(routes, migration, context)));
  const lines = migrations.flatMap((each) => migrationLines(each, context));
  await output.result({ migrations, refused }, lines);
  return 0;
}

/** Names each file that could not be copied so far, with the reason. */
async function refusedOf({ pins }: Operator, { state, failed, to }: Migration, { output }: Context) {
  const refused: SurveyedPin[] = [];
  if (state !== 'running' || failed === 0) return refused;
  for (const bad of ['failed', 'lost'] as const)
    for await (const pin of pins(bad)) if (pin.service === to) refused.push(pin);
  if (!output.json) for (const pin of refused) output.warn(troubleOf(pin));
  return refused;
}

async function cancelMigration(routes: Operator, { from, to }: Ends, context: Context): Promise<void> {
  const cancelling = routes.cancelMigration(from, to);
  const none = `nothing moves from ${from} to ${to}`;
  const migration = await hinting(cancelling, 'not_found', 'see: sealpin migrate --status', none);
  context.output.note(`cancelled: what has moved stays at ${to}, and the rest at ${from}`);
  await context.output.result({ migration }, migrationLines(migration, context));
}

/**
 * Asks how far a migration is, until it is done, or all that is left has been refused.
 * @throws conflict when it was cancelled
 */
async function follow(routes: Operator, begun: Migration, { output, signal }: Context): Promise<Migration> {
  const { from, to } = begun;
  const progress = output.progress(`moving blobs from ${from} to ${to}`, begun.total, {
    from: begun.total - begun.left,
    amount: (count) => String(Number(count.toFixed(1))),
  });
  const start = performance.now();
  let migration = begun;
  let refusals = 0;
  try {
    while (migration.state === 'running' && refusals < refusalsInRow) {
      const wait = (performance.now() - start) * migrationPollMs.share;
      await sleep(Math.min(migrationPollMs.most, Math.max(migrationPollMs.least, wait)), signal);
      const now = (await routes.migrations()).find((each) => each.from === from && each.to === to);
      if (now === undefined) break;
      progress.add(migration.left - now.left);
      migration = now;
      refusals = now.left > 0 && now.left === now.failed ? refusals + 1 : 0;
    }
  } catch (error) {
    output.note('the migration continues without this command; how far it is: sealpin migrate --status');
    signal.throwIfAborted();
    throw error;
  } finally {
    progress.done();
  }
  if (migration.state === 'done' || refusals === refusalsInRow) return migration;
  throw new SealpinError('conflict', `the migration from ${from} to ${to} was cancelled meanwhile`, {
    hint: 'begin it again with the same command',
  });
}

function migrationLines({ from, to, state, startedAt, total, left, failed }: Migration, context: Context): string[] {
  const failures = failed === 0 ? '' : `, ${failed} failed so far`;
  const about = `${state}  ${left} of ${total} left${failures}  since ${shownTime(startedAt, context)}`;
  return factLines(`${from} to ${to}  `, about, context);
}
