/** WebDriver BiDi (W3C) and Chrome's DevTools protocol: JSON over a WebSocket. */
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

/** The address that a starting browser has printed, in a line of its own. */
export const addressIn = (output: string): string | undefined => /listening on (ws:\S+)\s/.exec(output)?.[1];

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
