/** A step of a client or the operator: with which keys it asks, and what its history says. */
import { adminToken } from '../platform/edge.ts';
import { ask, type Request, type Told } from './asking.ts';
import type { Coverage } from './coverage.ts';
import { Violation, type Model, type ModelFile, type ModelShare } from './model.ts';
import type { KeyTerms } from './promises.ts';
import type { Action, Step } from './plan.ts';
import type { SimulatedService } from './simulated-service.ts';

export type ActingWorld = {
  service: SimulatedService;
  model: Model;
  /** The account of each number: its ID, and its first key. */
  accounts: SimulatedAccount[];
  /** The quotas with which accounts are made. */
  quotas: readonly (number | null)[];
  /** Set once files may have been moved between backends. */
  hasMigrated: boolean;
  coverage: Coverage | undefined;
  keys: Map<number, SimulatedKey>;
  tell(line: string): void;
};

/** An account. `isClosing`: a step is about to replace it by another one. */
type SimulatedAccount = { id: string; apiKey: string; isClosing: boolean };

/** An API key that a step has made. */
type SimulatedKey = KeyTerms & { id: string; apiKey: string };

export type ActionStep = Extract<Step, { does: Action }>;

/** An action of a kind. */
export type Doing<K extends Action['kind'], A = Action> = A extends { kind: infer L }
  ? K extends L
    ? A & { kind: K }
    : never
  : never;

/** The end of a step that asks for what is of another account. */
export class Refused extends Error {}

/** The actor of a step. */
export class Actor {
  readonly world: ActingWorld;
  readonly step: ActionStep;
  readonly account: number;
  readonly key: SimulatedKey | undefined;
  readonly apiKey: string;
  /** Takes note of the end of the step, once it has asked for something. */
  ended: (() => void) | undefined;
  /** Set once it asks for what is of another account: that must be refused, and ends the step. */
  isStranger = false;
  /** The first key of the account, as it was when the step began. */
  readonly #ownerKey: string | undefined;

  constructor(world: ActingWorld, step: ActionStep) {
    this.world = world;
    this.step = step;
    this.key = step.withKey === undefined ? undefined : world.keys.get(step.withKey);
    this.account = this.key?.account ?? step.by;
    this.#ownerKey = world.accounts[this.account]?.apiKey;
    this.apiKey = this.key?.apiKey ?? world.accounts[step.by]?.apiKey ?? '';
  }

  get now(): number {
    return this.world.service.scheduler.now;
  }

  /** The ID of the account, as it is now. */
  get accountId(): string {
    return this.world.accounts[this.account]?.id ?? '';
  }

  /** Tells whether the account of this number is still the one of the step's beginning. */
  get isSameAccount(): boolean {
    return this.world.accounts[this.account]?.apiKey === this.#ownerKey;
  }

  /** The file of a step, if it is known by an ID. */
  known(step: number): ModelFile | undefined {
    const file = this.world.model.file(step);
    return file?.fileId === undefined ? undefined : this.#owned(file);
  }

  /** The share of a step, if it is known by an ID. */
  knownShare(step: number): ModelShare | undefined {
    const share = this.world.model.share(step);
    const copy = share && this.#owned(share);
    return copy === share ? share : copy && { ...copy, file: { ...copy.file } };
  }

  /** What a step names; of another account a copy, as nothing may happen to it. */
  #owned<T extends { account: number }>(it: T): T {
    if (it.account === this.account) return it;
    this.isStranger = true;
    return { ...it };
  }

  async operate(method: string, path: string, json?: unknown): Promise<Told> {
    return await this.ask(method, `/v1/operator${path}`, {
      json,
      apiKey: adminToken,
      isRepeatable: method !== 'POST',
    });
  }

  async pause(ms: number): Promise<void> {
    await this.world.service.scheduler.sleep(ms, 'pause');
  }

  /** Sends a request, and again by the rules. */
  async ask(method: string, path: string, o: Partial<Omit<Request, 'method' | 'path'>> = {}): Promise<Told> {
    const { service, tell, coverage } = this.world;
    this.ended ??= coverage?.begun(this.step.does.kind);
    const request = { method, path, apiKey: this.apiKey, isRepeatable: method === 'GET', ...o };
    const from = this.now;
    const told = await ask(service, request);
    const said = told.status === 0 ? 'the line broke' : `${told.status} ${told.code ?? ''}`.trim();
    const tries = told.attempts === 1 ? '' : `, ${told.attempts} attempts`;
    tell(`step ${this.step.id}: ${method} ${path.slice(0, 60)}: ${said} (${Math.round(this.now - from)} ms${tries})`);
    const isAccepted = told.status >= 200 && told.status < 300 && request.apiKey === this.key?.apiKey;
    if (isAccepted && this.key.endsBy < from) throw new Violation('a key that has ended was accepted');
    if (isAccepted && this.key.isInvitation && path.startsWith('/v1/storage/') && method !== 'POST')
      throw new Violation(`a guest is answered ${method} ${path}`);
    if (!this.isStranger) return told;
    if (told.status >= 200 && told.status < 300) throw new Violation(`a stranger is answered ${method} ${path}`);
    throw new Refused();
  }
}
