/** The R2 buckets of a deployment, as wrangler shows them. */
import { stripVTControlCharacters } from 'node:util';
import { SealpinError } from '../shared/errors.ts';
import type { Subject } from './checks.ts';
import { listedIn, listSetting, type Configuration } from './configuration.ts';
import { failure, fine, wrong, type Finding } from './finding.ts';
import { reasonOf, type Wrangler } from './wrangler.ts';

/** A rule of a bucket: what it does, and to which keys. */
type Rule = { name: string; enabled: boolean; prefix: string; does: string };

/** The buckets that `BACKENDS` uses. */
export function usedBuckets({ vars, buckets }: Configuration): string[] {
  const entries = JSON.parse(vars[listSetting(vars)] || '[]') as { type?: string; binding?: string }[];
  const bindings = entries.flatMap(({ type, binding }) => (type === 'r2' ? [binding] : []));
  return buckets.flatMap(({ binding, bucket }) => (bindings.includes(binding) ? (bucket ?? []) : []));
}

/**
 * Creates a bucket where the account has none of this name.
 * @returns whether it was created
 * @throws misconfigured where R2 is not enabled, service_unreachable
 */
export async function createBucket(wrangler: Wrangler, bucket: string): Promise<boolean> {
  if ((await rulesOf(wrangler, 'lock', bucket)) !== undefined) return false;
  // wrangler would ask whether to add it to the configuration, which setup writes itself.
  const { ok, stderr } = await wrangler(['r2', 'bucket', 'create', bucket, '--no-update-config']);
  if (ok) return true;
  throw new SealpinError('misconfigured', `the bucket ${bucket} cannot be created: ${reasonOf(stderr)}`, {
    hint: 'code 10042: enable R2 in the dashboard of the Cloudflare account first',
  });
}

/** Each bucket: that it is there, and that no rule keeps or removes objects behind the service. */
export async function checkBuckets({
  configuration,
  wrangler,
}: Pick<Subject, 'configuration' | 'wrangler'>): Promise<Finding[]> {
  const buckets = listedIn(() => usedBuckets(configuration));
  return (await Promise.all(buckets.map((bucket) => findingsOf(wrangler, bucket)))).flat();
}

async function findingsOf(wrangler: Wrangler, bucket: string): Promise<Finding[]> {
  try {
    const [locks, lifecycle] = await Promise.all([
      rulesOf(wrangler, 'lock', bucket),
      rulesOf(wrangler, 'lifecycle', bucket),
    ]);
    if (locks === undefined || lifecycle === undefined)
      return [wrong(`the account has no R2 bucket ${bucket}`, 'run npm run setup: it creates it')];
    const held = locks.filter(({ enabled }) => enabled);
    // Parts of requests that broke off may go: the service sends none of R2's multipart uploads.
    const removing = lifecycle.filter(({ enabled, does }) => enabled && /Expire objects|Infrequent Access/.test(does));
    if (held.length + removing.length === 0) return [fine(`R2 bucket ${bucket}, without rules`)];
    return [
      ...held.map((rule) => ruleFinding(bucket, 'lock', rule, 'keeps what is deleted')),
      ...removing.map((rule) => ruleFinding(bucket, 'lifecycle', rule, 'takes files away')),
    ];
  } catch (error) {
    return [failure(error, 'try again')];
  }
}

function ruleFinding(bucket: string, kind: 'lock' | 'lifecycle', { name, prefix, does }: Rule, harm: string): Finding {
  return wrong(
    `R2 bucket ${bucket}: the ${kind} rule "${name}" (${prefix}, ${does}) ${harm}`,
    `where it applies to this service: npx wrangler r2 bucket ${kind} remove ${bucket} --name "${name}"`,
  );
}

/**
 * The rules of a bucket.
 * @returns undefined where there is no such bucket
 * @throws misconfigured where R2 is not enabled, service_unreachable
 */
async function rulesOf(wrangler: Wrangler, kind: 'lock' | 'lifecycle', bucket: string): Promise<Rule[] | undefined> {
  const { ok, stdout, stderr } = await wrangler(['r2', 'bucket', kind, 'list', bucket]);
  if (ok) return rulesIn(stripVTControlCharacters(stdout));
  const reason = reasonOf(stderr);
  // https://developers.cloudflare.com/r2/api/error-codes/
  if (/\b10006\b/.test(reason)) return undefined;
  if (/\b10042\b/.test(reason))
    throw new SealpinError('misconfigured', `R2 is not enabled: ${reason}`, {
      hint: 'enable R2 in the dashboard of the Cloudflare account first',
    });
  throw new SealpinError('service_unreachable', `wrangler r2 bucket ${kind} list failed: ${reason}`);
}

/** Parses what wrangler prints: a line for each property, and an empty one between rules. */
function rulesIn(text: string): Rule[] {
  return text.split(/\n\s*\n/).flatMap((block) => {
    const lines = block.split('\n').map((line) => /^\s*(name|enabled|prefix|condition|action):\s*(.*)$/.exec(line));
    const fields = Object.fromEntries(lines.flatMap((line) => (line === null ? [] : [[line[1], line[2] ?? '']])));
    const { name, enabled, prefix = '(all prefixes)', condition, action } = fields as Record<string, string>;
    return name === undefined ? [] : [{ name, enabled: enabled === 'Yes', prefix, does: action ?? condition ?? '' }];
  });
}
