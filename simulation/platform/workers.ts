/** The module `cloudflare:workers`, as far as the product imports it. */

/** An object that a namespace wakes. */
export const DurableObject = class {
  protected readonly ctx: unknown;
  protected readonly env: unknown;

  constructor(ctx: unknown, env: unknown) {
    this.ctx = ctx;
    this.env = env;
  }
};

/** An object whose methods may be called from another one. */
// oxlint-disable-next-line typescript/no-extraneous-class -- only its descendants have methods
export const RpcTarget = class {};
