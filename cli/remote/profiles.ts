/** Profiles: services with their API keys, by name, in the data directory (0600). */
import { join } from 'node:path';
import * as v from 'valibot';
import { namedRecord } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { changeKept, type Kept, readKept } from '../io/kept-json.ts';
import { pathsIn } from '../io/paths.ts';
import { suggestion } from '../terminal/suggestion.ts';

const shape = v.strictObject({
  v: v.literal(1),
  current: v.optional(v.string()),
  profiles: namedRecord(
    v.string(),
    v.strictObject({ service: v.string(), apiKey: v.string(), sign: v.optional(v.boolean()) }),
  ),
});

/**
 * A service by name, with the API key that goes to it alone. `sign`: what is sent there is signed.
 */
export type Profile = {
  readonly name: string;
  readonly service: string;
  readonly apiKey: string;
  readonly sign?: boolean | undefined;
};
/** All profiles, in the order of their names, and the name of the one in use. */
export type Profiles = { readonly current: string | undefined; readonly profiles: ReadonlyMap<string, Profile> };

/** Letters and digits, then also `.`, `_`, `:` and `-`, as hosts with a port have them. */
const namePattern = /^[\p{L}\p{N}][\p{L}\p{N}\p{M}._:-]{0,99}$/u;

/** Checks the name of a profile, and writes it in one way (NFC). @throws usage */
export function parseProfileName(text: string): string {
  const name = text.normalize('NFC');
  if (namePattern.test(name)) return name;
  throw new SealpinError('usage', `${JSON.stringify(text)} cannot be the name of a profile`, {
    hint: 'a name has up to 100 letters, digits and . _ : -, and begins with a letter or digit',
  });
}

function kept(dataDir: string): Kept<typeof shape> {
  const path = join(pathsIn(dataDir).profiles, 'profiles.json');
  return { path, what: 'profiles', shape, none: { v: 1, profiles: {} } };
}

/** Reads the profiles. Fails as `readKept`. */
export async function readProfiles(context: Context): Promise<Profiles> {
  return profilesIn(await readKept(kept(context.dataDir), context));
}

/**
 * Changes the profiles, while no other command does. Fails as `changeKept`, and with what `change`
 * throws.
 */
export async function changeProfiles(context: Context, change: (profiles: Profiles) => Profiles): Promise<void> {
  await changeKept(kept(context.dataDir), context, (before) => {
    const { current, profiles } = change(profilesIn(before));
    const entries = [...profiles].map(
      ([name, { service, apiKey, sign }]) => [name, { service, apiKey, sign }] as const,
    );
    return { v: before.v, current, profiles: Object.fromEntries(entries) };
  });
}

/** @throws not_found */
export function profileNamed(text: string, { profiles }: Profiles): Profile {
  const name = text.normalize('NFC');
  const profile = profiles.get(name);
  if (profile !== undefined) return profile;
  throw new SealpinError('not_found', `there is no profile ${JSON.stringify(name)}`, {
    hint: suggestion(name, [...profiles.keys()]) ?? 'see: sealpin profile list; sealpin login <url> makes one',
  });
}

function profilesIn({ current, profiles }: v.InferOutput<typeof shape>): Profiles {
  const entries = Object.entries(profiles).toSorted(([a], [b]) => a.localeCompare(b));
  return { current, profiles: new Map(entries.map(([name, profile]) => [name, { name, ...profile }])) };
}
