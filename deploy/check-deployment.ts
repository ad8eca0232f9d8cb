/** `npm run doctor`: everything that can be checked about a deployment, without changing it. */
import { existsSync, readFileSync } from 'node:fs';
import { checkBuckets } from './buckets.ts';
import { checkRemovedTypes } from './removed-types.ts';
import { checkCloudflare, checkConfiguration, checkPinning, checkService, versions, type Subject } from './checks.ts';
import { readConfiguration } from './configuration.ts';
import { linesOf, type Finding } from './finding.ts';
import type { DeployOptions } from './options.ts';
import { wranglerWith } from './wrangler.ts';

/** Inputs of a command from its process. */
export type DoctorContext = {
  env: NodeJS.ProcessEnv;
  print(line: string): void;
  signal: AbortSignal;
  /** Permits questions to a person. */
  interactive: boolean;
};

/**
 * Runs all checks, and prints a line for each.
 * @returns the exit code: 1 where something is wrong
 * @throws misconfigured
 */
export async function doctor(options: DeployOptions, { env, print, signal }: DoctorContext): Promise<number> {
  const configuration = readConfiguration(options.config);
  const subject: Subject = {
    configuration,
    wrangler: wranglerWith(options.config, env, signal),
    url: options.url ?? (configuration.domain && `https://${configuration.domain}`),
    secretOf: (name) => {
      const file = { ADMIN_TOKEN: options.adminTokenFile, METRICS_TOKEN: options.metricsTokenFile }[name];
      return env[name] || (file === undefined ? undefined : tokenIn(file));
    },
  };
  const findings: Finding[] = [versions(), ...checkConfiguration(subject)];
  const checks = [checkCloudflare, checkPinning, checkBuckets, checkRemovedTypes, checkService];
  for (const found of await Promise.all(checks.map((check) => check(subject)))) findings.push(...found);
  for (const line of findings.flatMap(linesOf)) print(line);
  const wrong = findings.filter(({ ok }) => ok === false).length;
  const fine = subject.url === undefined ? 'nothing is wrong in what was tried' : 'nothing is wrong';
  print(wrong === 0 ? fine : `${wrong} of ${findings.length} checks failed`);
  return wrong === 0 ? 0 : 1;
}

/** The token in a file; undefined without one. */
export function tokenIn(path: string): string | undefined {
  return existsSync(path) ? readFileSync(path, 'utf8').trim() || undefined : undefined;
}
