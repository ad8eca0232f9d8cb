/** Parts that the calls of an account share. */
import { RpcTarget } from 'cloudflare:workers';
import type { AccountContext } from '../account-context.ts';

/** Calls of the Worker on an account's object. RPC reaches methods only, and no context. */
export class AccountCalls extends RpcTarget {
  protected readonly context: AccountContext;

  constructor(context: AccountContext) {
    super();
    this.context = context;
  }
}
