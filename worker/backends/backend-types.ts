/** The types of backends, and the entries of `BACKENDS`, each of which makes one. */
import * as v from 'valibot';
import { SealpinError } from '../../shared/errors.ts';
import { isOwnName } from '../env.ts';
import { clusterAdapter } from './cluster/cluster.ts';
import { isReadable, type Adapter, type AdapterContext, type Backend } from './contract.ts';
import { kuboAdapter } from './kubo/kubo.ts';
import { pinataAdapter } from './pinata/pinata.ts';
import { psaAdapter } from './psa/psa.ts';
import { r2Adapter } from './r2/r2.ts';
import { s3Adapter } from './s3/s3.ts';

/** Each adapter parses its own options. */
const adapters = {
  kubo: entryOf(kuboAdapter),
  cluster: entryOf(clusterAdapter),
  psa: entryOf(psaAdapter),
  pinata: entryOf(pinataAdapter),
  r2: entryOf(r2Adapter),
  s3: entryOf(s3Adapter),
};

/** Types that were removed, and what is said of their entries. */
export const removedTypes: Record<string, { what: string; hint: string }> = {
  car: {
    what: 'the type car was removed: use psa',
    hint:
      'a service of the type psa comes after one that takes uploads, under another id; ' +
      'docs/operating.md, "A hosted service", says what becomes of files',
  },
};

/** A service of an entry, with its type and what the adapter was tried against. */
export type ConfiguredService = Backend & {
  type: string;
  triedAgainst: string;
  /** Places of its bytes, which no other entry may have. */
  places: readonly string[];
  /** The same service, whose requests have an `X-Request-Id`, to compare its log with ours. */
  onBehalfOf(requestId: string): ConfiguredService;
};

/** Returns a function that parses an entry, besides `id` and `type`, and makes its service. */
function entryOf<S extends v.GenericSchema>({ options, triedAgainst, places, make }: Adapter<S>) {
  return (fields: Record<string, unknown>, type: string, context: AdapterContext): ConfiguredService => {
    const parsed = v.safeParse(options, fields, { abortEarly: true });
    if (!parsed.success) throw context.misconfigured(parsed.issues[0].message);
    const made = (send: typeof fetch): ConfiguredService => {
      const backend = make(parsed.output, { ...context, fetch: send });
      return {
        ...backend,
        type,
        triedAgainst,
        places: backend.takes === 'objects' ? [backend.place] : (places?.(parsed.output) ?? []),
        onBehalfOf: (requestId) => made(naming(context.fetch, requestId)),
      };
    };
    return made(context.fetch);
  };
}

/** A `fetch` that names the request for which it sends its own. */
function naming(send: typeof fetch, requestId: string): typeof fetch {
  return (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set('X-Request-Id', requestId);
    return send(input, { ...init, headers });
  };
}

const isType = (value: unknown): value is keyof typeof adapters =>
  typeof value === 'string' && Object.hasOwn(adapters, value);

/** Context of all adapters; `fetch` is the platform's except in tests. */
export type ServicesContext = Pick<AdapterContext, 'serviceId' | 'bindingOf' | 'secretOf' | 'fetch'>;

/**
 * Parses `BACKENDS`: a list of at least one object with `id`, `type` and the options of that type's
 * adapter.
 * @param setting the name that it has in messages: `PINNING_SERVICES` is the old one
 * @throws misconfigured, naming the entry and the field
 */
export function configuredBackends(json: string, setting: string, context: ServicesContext): ConfiguredService[] {
  const known = new Set<string>();
  const holders = new Map<string, string>();
  const pinName = `sealpin:${context.serviceId}`;
  return parseList(json, setting).map((entry, index) => {
    const misconfigured = (what: string, o: { hint?: string } = {}): SealpinError =>
      new SealpinError(
        'misconfigured',
        `${setting}[${index}]${typeof entry['id'] === 'string' ? ` (${entry['id']})` : ''}: ${what}`,
        o,
      );
    const { id, type, ...rest } = entry;
    if (typeof id !== 'string' || !/^[a-z0-9][a-z0-9-]{0,31}$/.test(id))
      throw misconfigured('id must be 1 to 32 of a-z, 0-9 and -');
    if (known.has(id)) throw misconfigured('duplicate id');
    known.add(id);
    if (typeof type === 'string' && Object.hasOwn(removedTypes, type)) {
      const { what = '', hint = '' } = removedTypes[type] ?? {};
      throw misconfigured(what, { hint });
    }
    if (!isType(type)) throw misconfigured(`type must be one of ${Object.keys(adapters).join(', ')}`);
    const secretOf = (name: string): string | undefined => {
      if (!isOwnName(name)) return context.secretOf(name);
      throw misconfigured(`the secret ${name} has the name of one of the service itself`, {
        hint: 'give the secret of the backend another name: what it holds is sent there',
      });
    };
    const service = adapters[type](rest, type, { ...context, secretOf, pinName, id, misconfigured });
    for (const place of new Set(service.places)) {
      const holder = holders.get(place);
      if (holder !== undefined)
        throw misconfigured(`it is where ${holder} keeps its files: what is removed there is gone here`, {
          hint: 'keep one of them: an id stays where its files are, and files move only to another place',
        });
      holders.set(place, id);
    }
    if (index === 0 && !isReadable(service))
      throw misconfigured(
        `the first service takes uploads, which come in parts, and ${type} does not: list another one before it`,
      );
    return service;
  });
}

function parseList(json: string, setting: string): Record<string, unknown>[] {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (cause) {
    throw new SealpinError('misconfigured', `${setting} is not JSON`, { cause });
  }
  const isObject = (entry: unknown) => typeof entry === 'object' && entry !== null && !Array.isArray(entry);
  if (!Array.isArray(value) || value.length === 0 || !value.every(isObject))
    throw new SealpinError('misconfigured', `${setting} must be a list of at least one object`);
  return value as Record<string, unknown>[];
}
