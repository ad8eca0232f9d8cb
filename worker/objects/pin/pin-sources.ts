/** The services of the rows of a `Pin` object, as those that are asked for its blocks. */
import { isSealpinError } from '../../../shared/errors.ts';
import { readBlock, type BlockSource } from '../../../shared/ipfs/index.ts';
import { backendOf, readableIds, serviceOf, sourceOf } from '../../backends/configured.ts';
import type { Held, Readable } from '../../backends/contract.ts';
import type { ConfiguredService } from '../../backends/backend-types.ts';
import { onFailure } from '../../backends/on-failure.ts';
import { timeLimit } from '../../backends/time-limit.ts';
import { sourceError } from '../../backends/source-error.ts';
import { WithContext } from '../with-context.ts';
import { isServiceFault } from './pin-faults.ts';
import { wholeFile, type PinRow } from './pin-rows.ts';
import { blockMs, limited, requestMs, type WorkContext } from './pin-steps.ts';

/** Sources that are asked for the blocks of CIDs. */
export class PinSources extends WithContext<WorkContext> {
  /** The service of a row, on behalf of the request that the row names. */
  service({ service, request_id: requestId }: PinRow): ConfiguredService {
    return serviceOf(this.context.env, service, requestId ?? undefined);
  }

  /** Asks the service of a row, which can be read, for its pin. A failure opens its breaker. */
  async stat({ cid, service, request_id: requestId }: PinRow): Promise<'absent' | 'ours' | 'foreign' | 'unknown'> {
    const backend = backendOf(this.context.env, service, requestId ?? undefined);
    const asked: Promise<Pick<Held, 'pin'>> = backend.stat(cid, timeLimit(requestMs));
    return (await onFailure(asked, (error) => this.#noteFault(service, error))).pin;
  }

  /** The other services that hold the CID of a row and may be asked. */
  besides({ cid, service, request_id: requestId }: PinRow): BlockSource[] {
    return this.of(cid, { except: service, requestId });
  }

  /** The services that hold a CID and may be asked; those that failed for a block last. */
  of(cid: string, { except, requestId }: { except?: string; requestId?: string | null } = {}): BlockSource[] {
    const { env, rows, breakers, now } = this.context;
    const configured = readableIds(env);
    const ids = rows
      .ofCid(cid)
      .filter((row) => row.service !== except && row.state === 'live' && configured.has(row.service))
      .filter((row) => breakers.openUntil(row.service) <= now())
      .toSorted((a, b) => a.suspect - b.suspect)
      .map((row) => row.service);
    return ids.map((id) => this.#watched(cid, sourceOf(env, id, cid, requestId ?? undefined)));
  }

  /**
   * Reads the block of a row that is damaged, if one is, from the other services: what is left of
   * the file at its own goes only then.
   * @throws SourceError where none gives it
   */
  async readDamaged(row: PinRow, signal: AbortSignal): Promise<void> {
    if (row.damaged === null) return;
    const onMismatch = ({ id }: BlockSource): void => this.markSuspect(row.cid, id);
    const options = { signal: limited(signal), limits: { idleMs: blockMs }, onMismatch };
    try {
      await readBlock(row.damaged, this.besides(row), options);
    } catch (error) {
      signal.throwIfAborted();
      throw sourceError(error);
    }
  }

  /**
   * Marks a service that gave a wrong block, or said that it has none: it is asked last until all
   * of the file was read from it and found right, which begins now.
   */
  markSuspect(cid: string, service: string): void {
    const { rows, now } = this.context;
    const row = rows.find(cid, service);
    if (row === undefined || row.suspect === 1 || row.state !== 'live') return;
    rows.change(row, { suspect: 1, ...wholeFile, due: now() });
  }

  /** A source whose failures open its breaker: 10,000 copies must not wait for one service each. */
  #watched(cid: string, service: Readable): BlockSource {
    const failed = (error: unknown): void => {
      if (isSealpinError(error, 'pinning_lost')) this.markSuspect(cid, service.id);
      this.#noteFault(service.id, error);
    };
    return {
      id: service.id,
      block: (block, signal) => onFailure(service.block(block, signal), failed),
      read: (root, offset, length, signal) => onFailure(service.read(root, offset, length, signal), failed),
    };
  }

  #noteFault(service: string, error: unknown): void {
    const { breakers, now } = this.context;
    if (isServiceFault(error)) breakers.failed(service, now(), error.retryAfterSeconds);
  }
}
