/** Protocol between a page and its engine, a dedicated worker. */
import type { Share, ShareStatus, StoredFile } from '../shared/api.ts';
import type { Code, Reason } from '../shared/errors.ts';
import type { ParcelSignature } from '../shared/link/index.ts';

/** What a link, a blob ID or a file leads to. `exposed`: the `#` of the link came as `%23`. */
export type Found =
  | ({ kind: 'share'; exposed: boolean; needs?: 'password' | undefined } & Omit<ShareStatus, 'id' | 'password'>)
  | { kind: 'blob'; exposed: boolean; needs?: 'password' | 'keys' | undefined }
  | { kind: 'container'; needs: 'password' | 'keys' }
  /** A link of another service, whose own page opens it. */
  | { kind: 'elsewhere'; host: string; address: string }
  /** A link for handing files over, or for sending, which has a page of its own. */
  | { kind: 'inbox'; address: string }
  | { kind: 'invitation'; address: string };

/** A password, or the text of a private key file. */
export type Credentials = { password?: string | undefined; keys?: string | undefined };

/**
 * A file that can be saved. `id` is that of no other file of this page, also of one that was opened
 * before; `size` in bytes, where it is known before the end.
 */
export type FileView = { id: number; name: string; size?: number | undefined; cid?: string | undefined };

/** The opened contents. `note` and `from` are the sender's words; `zip`: all files as one. */
export type OpenedView = {
  note?: string | undefined;
  from?: string | undefined;
  signed?: ParcelSignature | undefined;
  files: FileView[];
  zip?: FileView | undefined;
};

/** A delivery to an inbox, or why it does not open: `foreign` is sealed to another key. */
export type DeliveryView = { id: string; receivedAt: string } & (
  | { from: string | undefined; files: readonly { name: string; size: number }[] }
  | { problem: 'foreign' | 'absent' | 'other' }
);

/** Destination of a file's bytes (save.ts chooses). */
export type PageSink =
  /** A file that the user picked. */
  | { kind: 'handle'; handle: FileSystemFileHandle }
  /** Memory, which comes back as a Blob. */
  | { kind: 'memory' }
  /** The private files of this origin; it comes back as a File, which is removed after a while. */
  | { kind: 'disk' }
  /** The service worker at the other end of the port, which pulls. */
  | { kind: 'stream'; port: MessagePort };

/** Calls of the engine that receives: the argument and the result of each. */
export type Receiving = {
  /**
   * Looks at a link or a blob ID. `opening`: what a share is opened with, which counts once; used
   * for nothing else.
   */
  find(o: { text: string; root: string; opening: string }): Found;
  findFile(o: { file: File }): Found;
  /** Finds once more what was found last, which may have ended meanwhile. */
  findAgain(o: undefined): Found;
  open(o: Credentials): OpenedView;
  /**
   * Times that the share still opens after it was opened here, wrong passwords included; undefined:
   * not opened.
   */
  opensLeft(o: undefined): number | undefined;
  /** Fails for a file of what was opened before, as `begin` and `serveRanges` do. */
  save(o: { file: number; sink: PageSink }): Blob | undefined;
  /** Ends when the private files of this origin have nothing left of what was saved. */
  copiesGone(o: undefined): void;
  /** The first bytes of a file, by which it shows what it is. */
  begin(o: { file: number }): Uint8Array;
  /** Answers a service worker that asks for ranges of a file at the port, until it is cancelled. */
  serveRanges(o: { file: number; port: MessagePort }): void;
  /** Loads what computes with keys while there is a network, for files that come without one. */
  prepare(o: undefined): void;
  signIn: Sending['signIn'];
  /** Takes the text of a private key file, which opens deliveries. */
  unlock(o: { keys: string }): void;
  /** A page of the deliveries to the inboxes of the account. */
  deliveries(o: { cursor?: string | undefined }): { deliveries: DeliveryView[]; cursor?: string | undefined };
  openDelivery(o: { id: string }): OpenedView;
};

/** A folder that is sent as a ZIP. `size`: of its files; `path` has `/` between names. */
export type FolderToSend = { name: string; size: number; files: readonly { path: string; file: File }[] };
export type FileToSend = File | FolderToSend;

/** Terms of a share. `expiresInMs` from now. */
export type FormTerms = { expiresInMs: number; opens: number } & Credentials;

/** Words of the sender to the receiver. */
export type SenderWords = { note?: string | undefined; from?: string | undefined };

/** A share that was made. */
export type LinkView = Pick<Share, 'createdAt' | 'opens' | 'expiresAt'> & {
  link: string;
  shareId: string;
  needs?: 'password' | 'keys' | undefined;
};

/**
 * Limits of an invitation or an inbox: until when, how much more, and how large a file may be;
 * without a member there is no such end.
 */
export type InvitationView = {
  expiresAt?: string | undefined;
  files?: number | undefined;
  bytes?: number | undefined;
  fileBytes?: number | undefined;
};

/** A link that was made before, without its secret. */
export type MadeLinkView = Pick<Share, 'state' | 'opens' | 'password' | 'createdAt' | 'expiresAt'> & {
  shareId: string;
  opened: number;
  files: number;
};

/** A file of the account. `name` where the service knows one. */
export type StoredView = Pick<StoredFile, 'fileId' | 'cid' | 'size' | 'createdAt'> & {
  name?: string | undefined;
  isPlain: boolean;
  /** Set for the parcel of a delivery to an inbox, with which its files are deleted. */
  isDelivery: boolean;
  /** State of its sealed name: open, still closed, or that of another file. */
  sealedName?: 'open' | 'closed' | 'foreign' | undefined;
};

/** Calls of the engine that sends, which keeps the API key, and what is stored for its shares. */
export type Sending = {
  /** Takes an API key, and gives what it may do. */
  signIn(o: { root: string; apiKey: string }): { scopes: readonly string[] };
  send(o: { files: readonly FileToSend[]; terms: FormTerms; words: SenderWords }): LinkView;
  /** Shares a file that the service encrypted. */
  sendOn(o: { fileId: string; terms: FormTerms; words: SenderWords }): LinkView;
  /**
   * Ends a share that was made here, and deletes the files that were stored for it, where the key
   * may. `opened`: how often before, where that is known.
   */
  takeBack(o: { shareId: string }): { opened?: number | undefined; isDeleted: boolean };
  /** Reads the link of an invitation, which then sends. */
  accept(o: { text: string; root: string }): InvitationView | { host: string; address: string };
  /** A page of the links that the API key sees. */
  links(o: { cursor?: string | undefined }): { links: MadeLinkView[]; cursor?: string | undefined };
  /** Ends one of these links; fails with `not_found` for what the key does not see. */
  takeBackLink(o: { shareId: string }): void;
  /** Changes until when, in ms from now, and how often in all one of these links opens. */
  changeLink(o: { shareId: string; opens: number; expiresInMs?: number | undefined }): Share;
  list(o: { cursor?: string | undefined }): { files: StoredView[]; cursor?: string | undefined };
  /** Takes the text of a private key, which opens names from then on. */
  useKey(o: { keys: string }): void;
  remove(o: { fileId: string }): { isDestroyed: boolean };
  /** Reads the link of an inbox; `name` is what its owner calls it. */
  findInbox(o: { text: string; root: string }): (InvitationView & { name: string }) | { host: string; address: string };
  deliver(o: { files: readonly FileToSend[]; words: SenderWords }): { count: number };
};

/** Calls of some engine. */
// oxlint-disable-next-line typescript/no-explicit-any -- the argument of any call
export type Calls = Record<string, (argument: any) => unknown>;

/** An error as it passes between threads. */
export type Failure = { code: Code | 'aborted'; reason?: Reason | undefined; message: string };

type EngineRequest<C extends Calls> = {
  [Name in keyof C]: { id: number; call: Name; argument: Parameters<C[Name]>[0] };
}[keyof C];
/** `resume` ends the wait after `stalled`. */
export type FromPage<C extends Calls> = EngineRequest<C> | { id: number; cancel: true } | { id: number; resume: true };

/**
 * From the engine. `progress`: bytes so far, of `total` where that is known; `file`: the index of
 * the one that it is at. `stalled`: the call waits for the page.
 */
export type FromEngine =
  | { id: number; result: unknown }
  | { id: number; failure: Failure }
  | { id: number; stalled: Failure }
  | { id: number; progress: number; total?: number | undefined; file?: number | undefined };

/** Asks the service worker, whose end of the port leads to the engine. */
export type AskedServiceWorker =
  | { kind: 'offer'; id: string; name: string; size: number; port: MessagePort }
  | { kind: 'alive'; id: string }
  /** A film or a sound, of which the browser asks for ranges. */
  | { kind: 'media'; id: string; size: number; type: string; port: MessagePort };

/**
 * From the page to the service worker, which says on `answer` whether it has the download: Firefox
 * stops one that nobody talks to for 30 s, and one that was started again has forgotten all.
 */
export type ToServiceWorker =
  | (AskedServiceWorker & { answer: MessagePort })
  /** The download has ended, or the page goes away. */
  | { kind: 'gone'; id: string };

/** From the service worker: a range (`end` exclusive), pulled at the port that comes along. */
export type RangeWanted = { start: number; end: number };

/** At a port: each `pull` is answered with bytes, `wait` (ask on), `end` or `failed`. */
export type FromServiceWorker = 'pull' | 'done' | 'cancelled' | 'broken';
export type ToPort = Uint8Array | 'wait' | 'end' | 'failed';

/**
 * Time for which a file is there for the browser to copy after it was handed over, in ms, because
 * no event tells when it has: a minute, and as long as the slowest disks take, at 4 MB/s.
 */
export const deliveryMs = (bytes: number): number => 60_000 + bytes / 4_000;

/** Folder of the origin’s private files that holds plaintext until the browser has copied it. */
export const privateFolder = 'sealpin-received';

/** Interval at which the engine says that it is still working on a piece, in ms. */
export const heartbeatMs = 3_000;
/** After so many ms of silence the service worker gives the download up as failed. */
export const silenceMs = 8_000;
