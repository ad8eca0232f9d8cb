/** The backends of a deployment, as the running service sees them. */
import type { Health, StrayList } from '../shared/api.ts';
import { wrong, type Finding } from './finding.ts';

/** Objects in stores that belong to nothing: too many wait for the operator. */
export function strayFindings({ stores = [] }: Partial<StrayList>): Finding[] {
  return stores.map(({ service, objects }) =>
    wrong(
      `object store ${service}: ${objects} objects belong to nothing, and wait for you`,
      'where the database of the service was restored or lost, stop here; else ' +
        `DELETE /v1/operator/strays/${service} with the operator’s token removes them`,
    ),
  );
}

/** Remedies for a backend that takes no new files, by the code. */
const remedies: Readonly<Record<string, string>> = {
  disk_full: 'make room there, or raise its quota',
  misconfigured:
    'its key must be allowed to write and to delete, too: npx wrangler tail shows what it answers to an upload',
};

/** Backends that fail, take no new files, or will lose some. */
export function backendFindings({ services = [] }: Partial<Health>): Finding[] {
  return services.flatMap(({ id, code, hint = 'npx wrangler tail shows why', refuses, warning }) =>
    [
      [code, hint],
      [refuses && `it takes no new files (${refuses.code})`, remedies[refuses?.code ?? ''] ?? hint],
      [warning, hint],
    ].flatMap(([what, todo = hint]) => (what === undefined ? [] : wrong(`backend ${id}: ${what}`, todo))),
  );
}
