/** A Worker with an object that does the steps of `storage-script.ts`. */
import { DurableObject } from 'cloudflare:workers';
import { resultsOf } from './storage-script.ts';

export class ProbedObject extends DurableObject {
  /** Without it no alarm can be set. */
  override async alarm(): Promise<void> {}

  override async fetch(): Promise<Response> {
    return Response.json(await resultsOf(this.ctx.storage));
  }
}

// oxlint-disable-next-line import/no-default-export -- workerd looks for it there
export default {
  fetch: (request: Request, env: { OBJECT: DurableObjectNamespace }) => env.OBJECT.getByName('one').fetch(request),
};
