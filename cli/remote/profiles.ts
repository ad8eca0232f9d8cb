/** Profiles: services with their API keys, by name, in the data directory (0600). */
import * as v from 'valibot';
import { namedRecord } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { changeKept, type Kept, readKept } from '../io/kept-json.ts';
import { suggestion } from '../terminal/suggestion.ts';

/** A service, with the API key that goes to it alone. `sign`: what is sent there is signed. */
const KeptProfile = v.strictObject({ service: v.string(), apiKey: v.string(), sign: v.optional(v.boolean()) });
const shape = v.strictObject({
  v: v.literal(1),
  current: v.optional(v.string()),
  profiles: namedRecord(v.string(), KeptProfile),
});

export type Profile = Readonly<v.InferOutput<typeof KeptProfile>> & { readonly name: string };
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

const profilesFile: Kept<typeof shape> = { name: 'profiles', shape, none: { v: 1, profiles: {} } };

/** Reads the profiles. Fails as `readKept`. */
export async function readProfiles(context: Context): Promise<Profiles> {
  return profilesIn(await readKept(profilesFile, context));
}

/** Changes the profiles, while no other command does. Fails as `changeKept` and `change`. */
export async function changeProfiles(context: Context, change: (profiles: Profiles) => Profiles): Promise<void> {
  await changeKept(profilesFile, context, (before) => {
    const { current, profiles } = change(profilesIn(before));
    const entries = [...profiles.values()].map(({ name, ...members }) => [name, members] as const);
    return { ...before, current, profiles: Object.fromEntries(entries) };
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
