/** `sealpin doctor`: what is wrong here, and what to do about it. */
import { constants, existsSync } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import type { AccountDetails } from '../../shared/api.ts';
import { sniff } from '../../shared/crypto/index.ts';
import { type Code, exitOf, otherwise, SealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { pathsIn } from '../io/paths.ts';
import { readSmall } from '../io/input.ts';
import { failWrite, ifMissing, systemFailure } from '../errno.ts';
import { readIdentities, readRecipients } from '../keys/key-files.ts';
import { leftoverProblem } from '../local/leftover.ts';
import { readState, startCommand } from '../local/state.ts';
import { api, noService, refuseUnencrypted } from '../remote/client.ts';
import { readConfig } from '../remote/config.ts';
import { readProfiles } from '../remote/profiles.ts';
import { findService, type Service } from '../remote/service-choice.ts';
import { factLines } from '../terminal/fitted-row.ts';
import { hintFor, hinting } from '../terminal/hints.ts';
import { countText, usedText } from '../terminal/size.ts';

const minuteMs = 60_000;
/** A clock that is further from that of the service makes ends come early or late. */
const maxClockMs = 5 * minuteMs;
/** More of the quota than this is worth a word. */
const nearlyFull = 0.9;

/** A result of one look. `todo`: what to do about it; `code`: of what is wrong. */
type Finding = {
  readonly subject: string;
  readonly state: 'ok' | 'note' | 'wrong';
  readonly text: string;
  readonly todo?: string | undefined;
  readonly code?: Code;
};

export const command = defineCommand({
  about:
    'Looks at the data directory, the configuration, your key pair, the service with the API key, and the clock: ' +
    'one line each, and below it what to do. It changes nothing, and asks for no password. The exit code is that ' +
    'of the first thing that is wrong.',
  args: {},
  service: true,
  examples: [
    { command: 'sealpin doctor', does: 'When something does not work' },
    { command: 'sealpin doctor --profile work', does: 'With that service' },
  ],
  async run({ context }) {
    const findings = [
      await lookAtSubject('data', context, dataFinding),
      await lookAtSubject('settings', context, settingsFinding),
      await lookAtSubject('key pair', context, pairFinding),
      ...(await serviceFindings(context)),
    ].map((found) => ({ ...found, todo: found.todo === undefined ? undefined : context.output.here(found.todo) }));
    const width = Math.max(...findings.map(({ subject }) => subject.length));
    const marks = { ok: 'ok   ', note: 'note ', wrong: 'wrong' };
    const lines = findings.flatMap(({ subject, state, text, todo }) => [
      ...factLines(`${marks[state]}  ${subject.padEnd(width)}  `, text, context),
      ...(todo === undefined ? [] : factLines(' '.repeat(width + 9), `-> ${todo}`, context)),
    ]);
    await context.output.result({ findings }, lines);
    const [code] = findings.flatMap(({ code: each }) => each ?? []);
    return code === undefined ? 0 : exitOf({ code });
  },
});

type Found = Omit<Finding, 'subject' | 'state'> & { readonly state?: 'note' };

/** Looks at one thing: its errors are findings, and so is a warning that it gives. */
async function lookAtSubject(
  subject: string,
  context: Context,
  find: (own: Context) => Promise<Found>,
): Promise<Finding> {
  const warnings: string[] = [];
  const own = { ...context, output: { ...context.output, warn: (text: string) => void warnings.push(text) } };
  try {
    const found = await find(own);
    const [warning] = warnings;
    if (warning === undefined) return { subject, state: 'ok', ...found };
    const [text = '', todo] = warning.split('; fix it with: ');
    return { subject, state: 'note', text, todo };
  } catch (error) {
    const failure = error instanceof SealpinError ? error : systemFailure(error);
    if (failure === undefined || context.signal.aborted) throw error;
    return { subject, state: 'wrong', text: failure.message, todo: hintFor(failure), code: failure.code };
  }
}

async function dataFinding({ dataDir, platform }: Context): Promise<Found> {
  const stats = await ifMissing(stat(dataDir), undefined);
  if (stats === undefined) return { state: 'note', text: `${dataDir} does not exist yet: nothing is kept here` };
  const hint = 'make it writable, or name another data directory with --data-dir';
  await hinting(access(dataDir, constants.W_OK).catch(failWrite(dataDir)), 'file_unwritable', hint);
  if (platform === 'win32' || (stats.mode & 0o077) === 0) return { text: dataDir };
  return { state: 'note', text: `others can look into ${dataDir}`, todo: `chmod 700 ${dataDir}` };
}

async function settingsFinding(context: Context): Promise<Found> {
  const { warning, gateways } = await readConfig(context.dataDir);
  if (warning !== undefined) context.output.warn(warning);
  const { current, profiles } = await readProfiles(context);
  const inUse = current === undefined ? 'none in use' : `${current} in use`;
  return { text: `${countText(profiles.size, 'profile')} (${inUse}), ${countText(gateways.length, 'gateway')}` };
}

async function pairFinding(context: Context): Promise<Found> {
  const { privateKey, publicKey } = pathsIn(context.dataDir);
  const reading = readSmall(privateKey, { what: 'a private key', environment: context });
  const bytes = await otherwise(reading, 'file_not_found', undefined);
  if (bytes === undefined)
    return { state: 'note', text: 'none: passwords only', todo: 'sealpin keygen --words makes one' };
  if (!existsSync(publicKey))
    throw new SealpinError('file_not_found', `there is no public.key beside ${privateKey}`, {
      hint: 'sealpin key rotate makes a new pair that also opens what this key does',
    });
  if (sniff(bytes) !== undefined) return { text: 'there, and protected with a password' };
  const own = (await readIdentities(undefined, undefined, context)).flatMap(({ recipient = [] }) => recipient);
  const [shown] = await readRecipients([publicKey], context);
  if (shown?.text !== undefined && own.includes(shown.text)) return { text: 'there, and both halves belong together' };
  throw new SealpinError('key_invalid', `${publicKey} is not the public half of private.key`, {
    hint: 'files that are encrypted to it do not open here: look for the private key in a backup',
  });
}

/** The service, then the clock and the API key where it answers. */
async function serviceFindings(context: Context): Promise<Finding[]> {
  let service: Service | undefined;
  let clockMs = Number.NaN;
  const answer = await lookAtSubject('service', context, async (own) => {
    const found = await findService(own);
    if (found.url === undefined) throw (await stoppedProblem(own)) ?? noService();
    service = { ...found, url: found.url, apiKey: found.apiKey, local: found.local === true };
    const { version, status, nowMs } = await api(service, own).health();
    clockMs = nowMs - own.now();
    const text = `${service.url.href} answers (version ${version})`;
    if (status === 'ok') return { text };
    return { state: 'note', text: `${text}; a backend of it takes no new files`, todo: 'its operator knows more' };
  });
  if (service === undefined || answer.state === 'wrong') return [answer];
  const asked = service;
  return [
    answer,
    await lookAtSubject('clock', context, async () =>
      asked.local ? { text: 'that of the service, too' } : clockFinding(clockMs),
    ),
    await lookAtSubject('API key', context, async (own) => keyFinding(asked, own)),
  ];
}

/** Says of a data directory with a local service that it does not run, and what is left of it. */
async function stoppedProblem({ dataDir }: Context): Promise<SealpinError | undefined> {
  if ((await readState(dataDir, 'secrets')) === undefined) return undefined;
  return (
    (await leftoverProblem(dataDir)) ??
    new SealpinError('not_running', 'the local service of this data directory is not running', {
      hint: `start it with: ${await startCommand(dataDir)}; or use another service: sealpin login <url>`,
    })
  );
}

function clockFinding(aheadMs: number): Found {
  if (Number.isNaN(aheadMs)) return { state: 'note', text: 'the service does not say what time it is' };
  if (Math.abs(aheadMs) <= maxClockMs) return { text: 'as that of the service' };
  const minutes = Math.round(Math.abs(aheadMs) / minuteMs);
  const apart = `${countText(minutes, 'minute')} ${aheadMs > 0 ? 'behind' : 'ahead of'}`;
  throw new SealpinError('config_invalid', `${apart} that of the service`, {
    hint: 'set the clock of this computer: ends of links and files are counted from it',
  });
}

async function keyFinding(service: Service, context: Context): Promise<Found> {
  refuseUnencrypted(service.url, 'the API key');
  if (service.apiKey === undefined)
    return {
      state: 'note',
      text: 'none: what others sent can be received, nothing can be stored',
      todo: `sealpin login ${service.url.href}`,
    };
  const nothing: Partial<AccountDetails> = {};
  const { key, usage, quotaBytes } = await otherwise(api(service, context).account(), 'insufficient_scope', nothing);
  const until = key?.expiresAt === undefined ? '' : `, until ${key.expiresAt.slice(0, 10)}`;
  const text = `from ${service.keyFrom ?? 'the command line'}${until}: ${key?.scopes.join(', ') ?? 'valid'}`;
  if (usage === undefined || quotaBytes === undefined || usage.bytes < quotaBytes * nearlyFull) return { text };
  return {
    state: 'note',
    text: `${usedText(usage.bytes, quotaBytes)} are used`,
    todo: 'sealpin delete makes room, and the operator may give more',
  };
}
