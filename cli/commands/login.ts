import { apiKeyHint, isApiKeyText } from '../../shared/crypto/keys/api-key-text.ts';
import { SealpinError } from '../../shared/errors.ts';
import { readAll } from '../../shared/streams/read-all.ts';
import { defineCommand, positional, toggle, valueFlag } from '../command.ts';
import type { Context } from '../context.ts';
import { openInput } from '../io/input.ts';
import { api, refuseUnencrypted } from '../remote/client.ts';
import { changeProfiles, parseProfileName } from '../remote/profiles.ts';
import { parseServiceUrl } from '../remote/service-choice.ts';
import { withTerminal } from '../terminal/prompt.ts';

/** More than any API key has; what is longer is something else. */
const apiKeyLimitBytes = 4096;

export const command = defineCommand({
  about:
    'Asks for an API key, or reads it from standard input, checks it with the service, and keeps both as a profile ' +
    '(0600) in the data directory, which the other commands then use. The key is never an argument.',
  args: {
    url: positional('The URL of the service'),
    name: valueFlag('name', 'The name of the profile; the host of the service if left out'),
    force: toggle('Replace a profile of that name that is for another service'),
  },
  examples: [
    { command: 'sealpin login https://sealpin.example.com', does: 'Asks for the API key' },
    { command: 'sealpin login https://sealpin.example.com --name work', does: 'As the profile work' },
  ],
  async run({ args, context }) {
    const url = parseServiceUrl(args.url, 'the address of the service');
    const name = parseProfileName(args.name ?? url.host);
    refuseUnencrypted(url, 'the API key');
    const apiKey = await readApiKey(url, context);
    const { account, key } = await api({ url, apiKey }, context).account();
    await changeProfiles(context, ({ profiles }) => {
      const existing = profiles.get(name);
      if (existing !== undefined && existing.service !== url.href && !args.force)
        throw new SealpinError('conflict', `the profile ${name} is for ${existing.service}`, {
          hint: 'give this one another name with --name, or replace it with --force',
        });
      // Its settings stay with a service that it was for before.
      const before = existing?.service === url.href ? existing : undefined;
      return { current: name, profiles: new Map(profiles).set(name, { ...before, name, service: url.href, apiKey }) };
    });
    context.output.note(`logged in to ${url.host} with the key ${key.label} (${key.scopes.join(', ')})`);
    context.output.note(`the profile ${name} is in use now; leave it with: sealpin profile use`);
    const shown = { profile: name, service: url.href, account: account.id, key: key.id, scopes: key.scopes };
    await context.output.result(shown, []);
  },
});

async function readApiKey(url: URL, context: Context): Promise<string> {
  const { stdin, interactive, signal } = context;
  const missing = 'an API key is required, and there is no terminal to ask for it';
  const dialogue = { interactive, missing, hint: 'pass it on standard input' };
  const text =
    stdin.isTTY === true
      ? await withTerminal(dialogue, (terminal) => terminal.ask(`API key for ${url.host}`, signal))
      : await readInput(context);
  signal.throwIfAborted();
  const apiKey = text.trim();
  if (isApiKeyText(apiKey)) return apiKey;
  const hint = `${apiKeyHint}: type it at the terminal, or pass it on standard input`;
  if (apiKey === '') throw new SealpinError('usage', 'no API key was given', { hint });
  throw new SealpinError('unauthorized', 'that is not an API key', { hint });
}

async function readInput(context: Context): Promise<string> {
  const input = await openInput('-', context);
  const tooLong = () => new SealpinError('unauthorized', 'standard input is not an API key');
  try {
    return new TextDecoder().decode(await readAll(input.stream, apiKeyLimitBytes, tooLong));
  } finally {
    await input.close();
  }
}
