// The bundled Worker beside the guard in workerd (see bundle.ts); it is made at run time.
declare const worker: { fetch(request: Request, env: unknown, context: unknown): Promise<Response> };
export default worker;

/** The state of a Durable Object, as far as the guard knows it. */
export type LocalContext = { id: { toString(): string }; blockConcurrencyWhile<T>(work: () => Promise<T>): Promise<T> };

/** A Durable Object that overwrites what it deletes. */
declare class Erasing {
  constructor(context: unknown, env: unknown);
  protected readonly ctx: LocalContext;
  protected readonly env: unknown;
  protected erased(): Promise<void>;
}

export class Account extends Erasing {}
export class Share extends Erasing {}
