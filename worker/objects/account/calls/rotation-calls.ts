/** The rotation of an account's key pair, as the Worker calls it on the account's object. */
import { err, type Result } from '../../result.ts';
import type { Operation } from '../account-context.ts';
import type { Recovery } from '../account-row.ts';
import type { KeyMaterial } from '../keys/key-rows.ts';
import type { Behind, Rewrapped } from '../keys/rotation-rows.ts';
import { AccountCalls } from './account-calls.ts';
import { deliverRevoked, revokeKeys, type KeysEnded } from './key-calls.ts';

/**
 * A pair that takes the place of another. `sealed`: its private key, sealed to the caller's API
 * key; `previous`: the private key before, sealed to it; `recovery`: null where the account has no
 * recovery key.
 */
type NextPair = Record<'replaces' | 'spki' | 'sealed' | 'previous', Uint8Array> & { recovery: Recovery | null };

/** `replaced`: the public key before the last rotation. `files`: some of what is left. */
type RotationState = KeyMaterial & {
  replaced: Uint8Array | null;
  recoveryKey: string | null;
  files: Behind[];
};

/** Replaces the key pair, and keeps the one before, sealed, until nothing needs it. */
export class RotationCalls extends AccountCalls {
  /** Progress of the rotation, for a caller who may drive it. @param limit most files of it */
  look(hash: string, limit: number): Promise<Result<RotationState>> {
    const { row, rotation } = this.context;
    return this.#as(hash, (caller) => ({
      ok: true,
      ...this.context.material(caller, true),
      replaced: row.replaced,
      recoveryKey: caller.account.recoveryKey,
      files: rotation.behind(limit),
    }));
  }

  /**
   * Begins a rotation, which revokes all other keys with `read`. Where another request has begun
   * it, nothing happens.
   * @returns what ended; `insufficient_scope`, `conflict` as for revoking keys
   */
  begin(hash: string, next: NextPair): Promise<Result<KeysEnded>> {
    const { replaces, spki, sealed, previous, recovery } = next;
    const { row, keys, events, rotation, outbox } = this.context;
    return this.#as(hash, async ({ key }) => {
      if (!this.context.isCurrent(replaces) || rotation.previous() !== null)
        return { ok: true, revoked: [], shares: [] };
      const superseded = events.refusal(key.id) ?? keys.superseded(key);
      if (!superseded.ok) return superseded;
      const revoked = this.context.transaction(() => {
        events.add({ action: 'account.rotated', by: key.id, subject: '' });
        row.replacePair(spki, replaces);
        if (recovery !== null) row.replaceRecovery(recovery);
        keys.reseal(key.id, sealed);
        rotation.begin(previous);
        const { messages, ...ended } = revokeKeys(this.context, superseded.ids, key.id);
        // An earlier version kept the private key before in the entry of KV, sealed.
        return { ...ended, messages: [outbox.add({ op: 'remember', target: hash }), ...messages] };
      });
      row.reload();
      return { ok: true, revoked: superseded.ids, shares: await deliverRevoked(this.context, revoked) };
    });
  }

  /**
   * Takes what was sealed to the current pair again. What was changed since it was read stays for
   * later. With the last of it the rotation ends, and the private key before is destroyed.
   * @param spki the public key that it is sealed to
   * @returns how many files are left, and the IDs of those taken; `conflict` for another pair
   */
  rewrap(
    hash: string,
    spki: Uint8Array,
    rewrapped: readonly Rewrapped[],
  ): Promise<Result<{ remaining: number; taken: string[] }>> {
    const { files, uploads, rotation, erased } = this.context;
    return this.#as(hash, async () => {
      if (!this.context.isCurrent(spki)) return err('conflict', 'the key pair of the account was replaced meanwhile');
      if (rotation.previous() === null) return { ok: true, remaining: 0, taken: [] };
      const done = this.context.transaction(() => {
        const taken = rewrapped.filter((file) => rotation.take(file));
        for (const each of taken) {
          files.rewrap(each);
          if (each.header !== null) uploads.rewrap(each.fileId, each.header);
        }
        const remaining = rotation.remaining();
        if (remaining === 0) rotation.end();
        return { remaining, taken: taken.map(({ fileId }) => fileId) };
      });
      await erased();
      return { ok: true, ...done };
    });
  }

  #as<T extends object>(hash: string, work: Operation<T>): Promise<Result<T>> {
    return this.context.as(hash, 'read', () => this.context.as(hash, 'keys', work));
  }
}
