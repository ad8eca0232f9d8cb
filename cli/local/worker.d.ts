// The bundled Worker beside the guard in workerd (see bundle.ts); it is made at run time.
declare const worker: { fetch(request: Request, env: unknown, context: unknown): Promise<Response> };
export default worker;

/** The Durable Object of an account, as far as the guard knows it. */
export class Account {
  constructor(context: unknown, env: unknown);
  protected readonly ctx: { id: { toString(): string }; blockConcurrencyWhile<T>(work: () => Promise<T>): Promise<T> };
  protected readonly env: unknown;
  protected erased(): Promise<void>;
}
