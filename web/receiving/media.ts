/** Films and sounds: the service worker answers ranges that the engine has authenticated. */
import type { Engine } from '../engine-client.ts';
import type { Receiving } from '../protocol.ts';
import { aliveMs, answered, dismiss, serviceWorker } from '../save.ts';

/**
 * Makes an address that this page can play, for as long as `signal` lasts.
 * @throws Error where the service worker does not start
 */
export async function mediaAddress(
  engine: Engine<Receiving>,
  { file, size, type, signal }: { file: number; size: number; type: string; signal: AbortSignal },
): Promise<string> {
  const id = crypto.randomUUID();
  // The player asks as part of this page, so this page must be within its scope.
  const registration = await serviceWorker({ scope: location.pathname });
  if (registration === undefined) throw new Error('there is no service worker');
  const offer = (): Promise<boolean> => {
    const { port1, port2 } = new MessageChannel();
    // It lasts as long as the signal, and ends with an error that says so.
    engine.call('serveRanges', { file, port: port1 }, { transfer: [port1], signal }).catch(() => undefined);
    return answered(registration, { kind: 'media', id, size, type, port: port2 }, [port2]);
  };
  const isControlled = new Promise<void>((resolve) => {
    if (navigator.serviceWorker.controller !== null) resolve();
    else navigator.serviceWorker.addEventListener('controllerchange', () => resolve(), { once: true });
  });
  await offer();
  await isControlled;
  // It stays for this page, and for no other.
  void registration.unregister();
  const alive = setInterval(async () => {
    if (!(await answered(registration, { kind: 'alive', id }))) await offer();
  }, aliveMs);
  const end = (): void => {
    clearInterval(alive);
    dismiss(registration, id);
  };
  signal.addEventListener('abort', end, { once: true });
  return `dl/${id}`;
}
