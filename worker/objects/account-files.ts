/** The files of an account, as the Worker calls them on the account's object. */
import { RpcTarget } from 'cloudflare:workers';
import type { Scope } from '../../shared/api.ts';
import type { EndedShare, Shares } from './account-shares.ts';
import type { Claims } from './claims.ts';
import type { Events } from './event-rows.ts';
import type { FileRecord, Files, Page, PageOptions } from './file-rows.ts';
import type { KeyMaterial, KeyRecord } from './key-registry.ts';
import { referenceRemoval, type Outbox } from './outbox.ts';
import type { Removal } from './pin.ts';
import { err, type Result } from './result.ts';

/** A caller whose key is valid. */
type Caller = { key: KeyRecord; account: { spki: Uint8Array } };

type Options = {
  storage: DurableObjectStorage;
  files: Files;
  claims: Claims;
  outbox: Outbox;
  events: Events;
  shares: Shares;
  /** Finds the key with a hash, where it is valid and has the scope. */
  authorize(hash: string, scope: Scope): Result<Caller>;
  /** The account's private key, sealed to the API key with this ID. */
  sealedFor(keyId: string): Uint8Array | null;
  /** Delivers messages at once; what is not acknowledged stays for the alarm. */
  deliver(ids: readonly number[]): Promise<Removal>;
  /** Runs after headers are overwritten. */
  erased(): Promise<void>;
};

/** The files of an account that are stored. */
export class AccountFiles extends RpcTarget {
  readonly #o: Options;

  constructor(options: Options) {
    super();
    this.#o = options;
  }

  /** A file, and what opens it. */
  async find(
    hash: string,
    fileId: string,
    o: { sealed: boolean },
  ): Promise<Result<KeyMaterial & { file: FileRecord }>> {
    const caller = this.#o.authorize(hash, 'read');
    if (!caller.ok) return caller;
    const found = this.#o.files.readable(fileId);
    if (!found.ok) return found;
    const { file } = found;
    return { ok: true, ...this.#material(caller, o.sealed && file.mode === 'encrypted'), file };
  }

  /** A page of files, newest first, and what opens them. */
  async list(hash: string, o: PageOptions & { sealed: boolean }): Promise<Result<KeyMaterial & Page>> {
    const caller = this.#o.authorize(hash, 'read');
    return caller.ok ? { ok: true, ...this.#material(caller, o.sealed), ...this.#o.files.page(o) } : caller;
  }

  /** Deletes a file: header, row and shares in one transaction before anything else, then the shares' records, then the reference. */
  async remove(
    hash: string,
    fileId: string,
  ): Promise<Result<{ file: FileRecord; status: Removal; shares: EndedShare[] }>> {
    const { authorize, storage, files, claims, outbox, events, shares, deliver, erased } = this.#o;
    const caller = authorize(hash, 'delete');
    if (!caller.ok) return caller;
    const removed = storage.transactionSync(() => {
      const file = files.remove(fileId, 'ready');
      if (file === undefined) return undefined;
      claims.drop(fileId);
      events.add({ action: 'file.deleted', by: caller.key.id, subject: fileId });
      const ending = shares.endOfFile(fileId, caller.key.id);
      return { file, ending, message: outbox.add(referenceRemoval(file)) };
    });
    if (removed === undefined) return err('not_found');
    const ended = await shares.deliver(removed.ending);
    const status = await deliver([removed.message]);
    await erased();
    return { ok: true, file: { ...removed.file, header: null }, status, shares: ended };
  }

  #material({ key, account }: Caller, withSealed: boolean): KeyMaterial {
    return { key, spki: account.spki, sealed: withSealed ? this.#o.sealedFor(key.id) : null };
  }
}
