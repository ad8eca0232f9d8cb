/** The backends of a deployment, as the running service sees them. */
import type { Health, StrayList } from '../shared/api.ts';
import type { Finding } from './finding.ts';

/** What lies in stores and belongs to nothing: too much of it waits for the operator. */
export function strayFindings({ stores = [] }: Partial<StrayList>): Finding[] {
  return stores.map(({ service, objects }) => ({
    ok: false,
    what: `object store ${service}: ${objects} objects belong to nothing, and wait for you`,
    todo:
      'where the database of the service was restored or lost, stop here; else ' +
      `DELETE /v1/operator/strays/${service} with the operator’s token removes them`,
  }));
}

/** Backends that fail, take no new files, or will lose some. */
export function backendFindings({ services = [] }: Partial<Health>): Finding[] {
  return services.flatMap(({ id, code, hint = 'npx wrangler tail shows why', refuses, warning }) => {
    const wrong = [code, refuses && `it takes no new files (${refuses.code})`, warning];
    return wrong.flatMap((what) =>
      what === undefined ? [] : { ok: false, what: `backend ${id}: ${what}`, todo: hint },
    );
  });
}
