/** A real Kubo that knows only what a hosted service documents of Kubo's RPC, and says no more than that. */
import { request as connect } from 'node:http';
import { startKubo, type RealKubo } from '../../../../testkit/kubo.ts';
import { startLoopbackServer } from '../../../../testkit/loopback-server.ts';
import type { Honest } from '../suite.ts';
import documented from './filebase-rpc.json' with { type: 'json' };

/** What lets documented commands through. */
export type Filter = {
  url: string;
  /** What was asked that is not documented, as it was refused. */
  refused: string[];
  close(): Promise<void>;
};

export type HostedKubo = Honest & Omit<Filter, 'url'> & { kubo: RealKubo };

const commands: Record<string, readonly string[]> = documented.commands;

/** Starts a filter before a Kubo that refuses every command and every parameter that the documents do not name. */
export async function startFilter(kuboUrl: () => string): Promise<Filter> {
  const refused: string[] = [];
  const server = await startLoopbackServer((request, response) => {
    const url = new URL(request.url ?? '/', kuboUrl());
    const command = url.pathname.replace(/^\/api\/v0\//, '');
    const known = Object.hasOwn(commands, command) ? commands[command] : undefined;
    const unknown = known === undefined ? command : [...url.searchParams.keys()].find((each) => !known.includes(each));
    if (request.method !== 'POST' || unknown !== undefined) {
      refused.push(`${request.method} ${command}: ${unknown}`);
      request.resume();
      response.writeHead(400).end(`not documented: ${unknown}`);
      return;
    }
    const headers = { ...request.headers, host: url.host };
    const onward = connect(url.href, { method: 'POST', headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.once('close', () => onward.destroy());
    request.pipe(onward);
  });
  return { ...server, refused };
}

/** Starts a Kubo and such a filter. */
export async function startHostedKubo(): Promise<HostedKubo> {
  const kubo = await startKubo();
  const filter = await startFilter(() => kubo.url);
  return {
    ...filter,
    kubo,
    token: kubo.token,
    isHosted: true,
    async close() {
      await filter.close();
      await kubo.close();
    },
  };
}
