/** Measures the body of a request, in a Worker of its own. */
import { hashingStream } from '../../ipfs/index.ts';

// oxlint-disable-next-line import/no-default-export -- workerd takes the handler from there
export default {
  async fetch(request: Request): Promise<Response> {
    const { stream, result } = hashingStream(request.body!);
    const reader = stream.getReader();
    while (!(await reader.read()).done);
    return Response.json(await result);
  },
};
