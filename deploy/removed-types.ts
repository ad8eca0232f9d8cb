/** Search for what is stored at pinning services of types that this version no longer has. */
import { queryOf } from '../cli/remote/client.ts';
import { countText } from '../cli/terminal/size.ts';
import { PinPage } from '../shared/api.ts';
import { removedTypes } from '../worker/backends/backend-types.ts';
import type { Subject } from './checks.ts';
import { listedIn } from './configuration.ts';
import { failure, fine, note, wrong, type Finding } from './finding.ts';
import { operatorApi } from './operator-api.ts';

/** Limits on the pages of pins that are searched, and on the CIDs that are named. */
const searchLimits = { pages: 100, cids: 20 };

const idsOf = (json: string | undefined): string[] =>
  listedIn(() => {
    const entries = JSON.parse(json ?? '') as { id?: unknown; type?: unknown }[];
    return entries.filter(({ type }) => Object.hasOwn(removedTypes, String(type))).map(({ id }) => String(id));
  });

/** Names the pins of each entry whose type was removed, as the deployed service lists them. */
export async function checkRemovedTypes({
  configuration,
  url,
  secretOf,
}: Pick<Subject, 'configuration' | 'url' | 'secretOf'>): Promise<Finding[]> {
  const ids = idsOf(configuration.vars['BACKENDS'] || configuration.vars['PINNING_SERVICES']);
  const token = secretOf('ADMIN_TOKEN');
  if (ids.length === 0) return [];
  if (url === undefined || token === undefined)
    return ids.map((id) => note(`files at ${id}: not listed without --url and ADMIN_TOKEN`));
  const cids = new Map(ids.map((id): [string, string[]] => [id, []]));
  let cursor: string | undefined;
  try {
    for (let page = 0; page === 0 || (cursor !== undefined && page < searchLimits.pages); page += 1) {
      const query = queryOf({ limit: 100, cursor });
      const found = await operatorApi(url, token).get(`/v1/operator/pins${query}`, PinPage);
      for (const { service, cid } of found.pins) cids.get(service)?.push(cid);
      ({ cursor } = found);
    }
  } catch (error) {
    return [failure(error, 'try again', `the pins of ${url}: `)];
  }
  const atLeast = cursor === undefined ? '' : 'at least ';
  return [...cids].map(([id, all]): Finding => {
    if (all.length === 0 && cursor === undefined) return fine(`${id} holds no file of this service`);
    const named = all.slice(0, searchLimits.cids).join(', ') + (all.length > searchLimits.cids ? ', …' : '');
    return wrong(
      `${id} holds ${atLeast}${countText(all.length, 'pin')}: ${named}`,
      'docs/operating.md, "A hosted service", says how they get to another service',
    );
  });
}
