/** The runtimes that an adapter is tested in, and services to test it with. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { startModule } from '../../../testkit/workerd.ts';
import { play, type Outcome, type Scenario } from './scenario.ts';
import { startLoopbackServer } from '../../../testkit/loopback-server.ts';

export type Runtime = { play(scenario: Scenario): Promise<Outcome>; close(): Promise<void> };

export const runtimes: Record<string, () => Promise<Runtime>> = {
  Node: async () => ({ play, close: async () => undefined }),
  async workerd() {
    const { url, close } = await startModule('worker/test/backends/entry.ts');
    return {
      async play(scenario) {
        const response = await fetch(url, { method: 'POST', body: JSON.stringify(scenario) });
        return await response.json<Outcome>();
      },
      close,
    };
  },
};

/** A service made of one handler. `bodies`: how each request's body ended, in order. */
export type Fake = {
  url: string;
  commands: string[];
  lengths: (string | undefined)[];
  bodies: ('whole' | 'aborted')[];
  close(): Promise<void>;
};

export async function fake(handler: (request: IncomingMessage, response: ServerResponse) => void): Promise<Fake> {
  const commands: string[] = [];
  const lengths: (string | undefined)[] = [];
  const bodies: ('whole' | 'aborted')[] = [];
  const listener: RequestListener = (request, response) => {
    commands.push(request.url ?? '');
    lengths.push(request.headers['content-length']);
    request.on('close', () => bodies.push(request.complete ? 'whole' : 'aborted'));
    handler(request, response);
  };
  const server = await startLoopbackServer(listener);
  return {
    url: server.url,
    commands,
    lengths,
    bodies,
    close: server.close,
  };
}

/** Reads a request's body before doing something. */
export function afterBody(then: (request: IncomingMessage, response: ServerResponse) => void) {
  return (request: IncomingMessage, response: ServerResponse) => {
    request.on('end', () => then(request, response)).resume();
  };
}
