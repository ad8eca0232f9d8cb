/** WebDriver BiDi (W3C) and Chrome's DevTools protocol: JSON over a WebSocket. */
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

type WireMessage = {
  id?: number;
  method?: string;
  params?: unknown;
  result?: unknown;
  /** A word in BiDi. */
  error?: unknown;
  message?: string;
};

/** A connection to a browser, which ends with it. */
export type BrowserWire = {
  /**
   * Sends a command, and gives its result.
   * @param sessionId DevTools: of the tab that it is for
   * @throws with the browser's message
   */
  send<T = unknown>(method: string, params?: object, sessionId?: string): Promise<T>;
};

/** The address that a starting browser prints. @throws when it ends before */
export function addressIn(output: Readable): Promise<string> {
  const lines: string[] = [];
  return new Promise((resolve, reject) => {
    // It is read to the end, so that the pipe never fills.
    createInterface({ input: output })
      .on('line', (line) => {
        const address = /listening on (ws:\S+)/.exec(line)?.[1];
        if (address === undefined) lines.push(line);
        else resolve(address);
      })
      .on('close', () => reject(new Error(`the browser ended: ${lines.join('\n')}`)));
  });
}

/** Connects to a browser. @param onEvent gets every event that was subscribed to */
export async function connectBrowser(
  address: string,
  onEvent: (method: string, params: unknown) => void = () => undefined,
): Promise<BrowserWire> {
  const socket = new WebSocket(address);
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  let lastId = 0;
  socket.addEventListener('message', ({ data }) => {
    const { id, method, params, result, error, message } = JSON.parse(String(data)) as WireMessage;
    if (method !== undefined) return onEvent(method, params);
    const call = waiting.get(id ?? -1);
    waiting.delete(id ?? -1);
    if (error === undefined) call?.resolve(result);
    else call?.reject(new Error(`${JSON.stringify(error)}: ${message}`));
  });
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve);
    socket.addEventListener('error', () => reject(new Error(`no browser answers at ${address}`)));
  });
  socket.addEventListener('close', () => {
    for (const { reject } of waiting.values()) reject(new Error('the browser ended'));
    waiting.clear();
  });
  return {
    async send<T>(method: string, params: object = {}, sessionId?: string) {
      const call = Promise.withResolvers<unknown>();
      waiting.set((lastId += 1), call);
      socket.send(JSON.stringify({ id: lastId, method, params, sessionId }));
      return (await call.promise) as T;
    },
  };
}
