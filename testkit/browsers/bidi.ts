/** The wire of WebDriver BiDi (W3C): commands and events as JSON over a WebSocket. */

type BidiMessage = {
  id?: number;
  method?: string;
  params?: unknown;
  result?: unknown;
  error?: string;
  message?: string;
};

/** A connection to a browser. */
export type Bidi = {
  /** Sends a command, and gives its result. @throws with the browser's message */
  send<T = unknown>(method: string, params?: object): Promise<T>;
  close(): void;
};

/** Connects to a browser. @param onEvent gets every event that was subscribed to */
export async function connectBidi(address: string, onEvent: (method: string, params: unknown) => void): Promise<Bidi> {
  const socket = new WebSocket(address);
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  let lastId = 0;
  socket.addEventListener('message', ({ data }) => {
    const { id, method, params, result, error, message } = JSON.parse(String(data)) as BidiMessage;
    if (method !== undefined) return onEvent(method, params);
    const call = waiting.get(id ?? -1);
    waiting.delete(id ?? -1);
    if (error === undefined) call?.resolve(result);
    else call?.reject(new Error(`${error}: ${message}`));
  });
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve);
    socket.addEventListener('error', () => reject(new Error(`nothing speaks BiDi at ${address}`)));
  });
  socket.addEventListener('close', () => {
    for (const { reject } of waiting.values()) reject(new Error('the browser ended'));
    waiting.clear();
  });
  return {
    async send<T>(method: string, params: object = {}) {
      const call = Promise.withResolvers<unknown>();
      waiting.set((lastId += 1), call);
      socket.send(JSON.stringify({ id: lastId, method, params }));
      return (await call.promise) as T;
    },
    close: () => socket.close(),
  };
}
