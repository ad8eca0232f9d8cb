import { defineCommand, positional } from '../command.ts';
import { factLines } from '../terminal/fitted-row.ts';
import { changeProfiles, profileNamed, readProfiles } from '../remote/profiles.ts';

export const profileList = defineCommand({
  about: 'The one in use has a star. API keys are not shown.',
  args: {},
  examples: [{ command: 'sealpin profile list', does: 'Names and services' }],
  async run({ context }) {
    const { current, profiles } = await readProfiles(context);
    const all = [...profiles.values()].map(({ name, service }) => ({ name, service, inUse: name === current }));
    const width = Math.max(0, ...all.map(({ name }) => name.length));
    const lines = all.flatMap(({ name, service, inUse }) =>
      factLines(`${inUse ? '*' : ' '} ${name.padEnd(width)}  `, service, context),
    );
    await context.output.result({ profiles: all }, lines);
    if (all.length === 0) context.output.note('there are no profiles: sealpin login <url> makes one');
  },
});

export const profileUse = defineCommand({
  about: 'The commands use its service and API key from now on. Without a name, none is in use.',
  args: { name: positional('The name of the profile', { required: false, completes: 'profile' }) },
  examples: [
    { command: 'sealpin profile use work', does: 'Use that service' },
    { command: 'sealpin profile use', does: 'Back to the configured or local service' },
  ],
  async run({ args, context }) {
    await changeProfiles(context, (before) => ({
      ...before,
      current: args.name === undefined ? undefined : profileNamed(args.name, before).name,
    }));
    const { current, profiles } = await readProfiles(context);
    const service = current === undefined ? undefined : profiles.get(current)?.service;
    context.output.note(
      current === undefined ? 'no profile is in use' : `the profile ${current} is in use: ${String(service)}`,
    );
    await context.output.result({ profile: current ?? null, service: service ?? null }, []);
  },
});

export const profileRemove = defineCommand({
  about: 'Forgets its service and API key here. The key stays valid: sealpin key revoke ends it.',
  args: { name: positional('The name of the profile', { completes: 'profile' }) },
  examples: [{ command: 'sealpin profile remove work', does: 'Forget it' }],
  async run({ args, context }) {
    let name = args.name;
    await changeProfiles(context, (before) => {
      ({ name } = profileNamed(args.name, before));
      const profiles = new Map(before.profiles);
      profiles.delete(name);
      return { current: before.current === name ? undefined : before.current, profiles };
    });
    context.output.note(`removed ${name}; its API key stays valid until it is revoked`);
    await context.output.result({ removed: name }, []);
  },
});
