/** Rules by which a bucket removes or moves objects by itself (lifecycle). */
import { printable } from '../printable.ts';
import type { Warning } from '../objects/bucket.ts';
import { elementsIn, textIn, type S3Requests } from './s3-requests.ts';

/** Interval at which a bucket is asked for its rules, in ms. */
const askMs = 86_400_000;
/** Statuses of a store that has no such rules, or does not show them to this key. */
const unknown = [403, 404, 405, 501];

/**
 * Makes the question whether a rule would take objects below a prefix away, which is asked once a
 * day. Rules for what is no object of ours (older versions, uploads that broke off) do no harm.
 * @returns of the question: what is wrong, and what the operator must do
 */
export function ruleCheck(bucket: string, again: S3Requests['again']) {
  let known: { at: number; warning: Warning | undefined } | undefined;
  return async (prefix: string, signal: AbortSignal): Promise<Warning | undefined> => {
    if (known === undefined || Date.now() - known.at > askMs) {
      const { xml } = await again({ method: 'GET', query: { lifecycle: '' }, expected: unknown }, signal);
      const names = elementsIn(xml, 'Rule').flatMap((rule) => (takesAway(rule, prefix) ? [ruleName(rule)] : []));
      known = { at: Date.now(), warning: names.length === 0 ? undefined : warningOf(bucket, prefix, names) };
    }
    return known.warning;
  };
}

function warningOf(bucket: string, prefix: string, names: readonly string[]): Warning {
  return {
    warning:
      `files will be lost: lifecycle rules of the bucket ${bucket} take objects below "${prefix}" away: ` +
      names.join(', '),
    hint: 'the operator must remove these rules, or limit them to other prefixes',
  };
}

function takesAway(rule: string, prefix: string): boolean {
  const expiration = textIn(rule, 'Expiration') ?? '';
  const isHarmful = /<(?:Days|Date)>/.test(expiration) || rule.includes('<Transition>');
  const of = textIn(rule, 'Prefix') ?? '';
  // No object of ours has a tag.
  const isElsewhere = rule.includes('<Tag>') || !(of.startsWith(prefix) || prefix.startsWith(of));
  return textIn(rule, 'Status') === 'Enabled' && isHarmful && !isElsewhere;
}

/** The name of a rule, of which nothing else is shown. */
function ruleName(rule: string): string {
  return printable(textIn(rule, 'ID') ?? 'without a name', 100);
}
