/** Measures the body of a request, in a Worker of its own. */
import { cidBuilder } from '../../ipfs/index.ts';
import { present } from '../../../testkit/present.ts';

// oxlint-disable-next-line import/no-default-export -- workerd takes the handler from there
export default {
  async fetch(request: Request): Promise<Response> {
    const builder = cidBuilder();
    for await (const bytes of present(request.body)) await builder.write(bytes);
    return Response.json(await builder.finish());
  },
};
