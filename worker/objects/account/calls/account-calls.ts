/** Parts that the calls of an account share. */
import { RpcTarget } from 'cloudflare:workers';
import type { AccountContext } from '../account-context.ts';

/**
 * Calls that the Worker makes on an account's object. The context is the object's own: RPC reaches
 * methods only.
 */
export class AccountCalls extends RpcTarget {
  protected readonly context: AccountContext;

  constructor(context: AccountContext) {
    super();
    this.context = context;
  }
}
