/** What a page and its engine, a dedicated worker, say to each other. */
import type { Code, Reason } from '../shared/errors.ts';

/** What a link, a blob ID or a file of this computer turned out to be. `exposed`: the `#` of the link came as `%23`. */
export type Found =
  | {
      kind: 'share';
      exposed: boolean;
      state: 'active' | 'used_up' | 'expired' | 'revoked';
      needs?: 'password';
      expiresAt: string;
      opensLeft: number;
    }
  | { kind: 'blob'; exposed: boolean; needs?: 'password' | 'keys' }
  | { kind: 'container'; needs: 'password' | 'keys' }
  /** A link of another service, whose own page opens it. */
  | { kind: 'elsewhere'; host: string; address: string }
  | { kind: 'inbox' };

/** A password, or the text of a private key file. */
export type Credentials = { password?: string; keys?: string };

/** A file that can be saved. `size` in bytes, where it is known before the end. */
export type FileView = { name: string; size?: number; cid?: string };

/** What was opened. `note` and `from` are the sender's words. `opensLeft`: of a share, as its service said before. */
export type Opened = { note?: string; from?: string; files: FileView[] };

/** Where the bytes of a file go (save.ts chooses). */
export type Sink =
  /** A file that the user picked. */
  | { kind: 'handle'; handle: FileSystemFileHandle }
  /** Memory, which comes back as a Blob. */
  | { kind: 'memory' }
  /** The private files of this origin; it comes back as a File, which is removed after a while. */
  | { kind: 'disk' }
  /** The service worker at the other end of the port, which pulls. */
  | { kind: 'stream'; port: MessagePort };

/** What the engine does: the argument and the result of each call. */
export interface Calls {
  find(o: { text: string; root: string }): Found;
  findFile(o: { file: File }): Found;
  open(o: Credentials): Opened;
  save(o: { file: number; sink: Sink }): Blob | undefined;
}

export type CallName = keyof Calls;

/** An error as it passes between threads. */
export type Failure = { code: Code | 'aborted'; reason?: Reason | undefined; message: string };

/** From the page. */
export type Request = {
  [Name in CallName]: { id: number; call: Name; argument: Parameters<Calls[Name]>[0] };
}[CallName];
export type FromPage = Request | { id: number; cancel: true };

/** From the engine. `progress`: bytes so far. */
export type FromEngine =
  | { id: number; result: ReturnType<Calls[CallName]> }
  | { id: number; failure: Failure }
  | { id: number; progress: number };

/** From the page to the service worker. The port leads to the engine. */
export type ToServiceWorker =
  | { kind: 'offer'; id: string; name: string; size: number; port: MessagePort }
  /** The page goes away. */
  | { kind: 'gone'; id: string }
  /** Keeps the service worker running: Firefox stops one that nobody talks to for 30 s. */
  | { kind: 'alive' };

/** Over the port, from the service worker; each `pull` is answered with bytes, `wait` (ask on), `end` or `failed`. */
export type FromServiceWorker = 'pull' | 'done' | 'cancelled' | 'broken';
export type ToPort = Uint8Array | 'wait' | 'end' | 'failed';

/** How often the engine says that it is still working on a piece, in ms. */
export const heartbeatMs = 3_000;
/** After so many ms of silence the service worker gives the download up as failed. */
export const silenceMs = 8_000;
