/** Plays scenarios in workerd. */
import { play, type Scenario } from './scenario.ts';

// oxlint-disable-next-line import/no-default-export -- workerd takes the handler from there
export default {
  async fetch(request: Request): Promise<Response> {
    return Response.json(await play(await request.json<Scenario>()));
  },
};
