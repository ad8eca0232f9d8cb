/** Resumable uploads over the HTTP client of the command line. */
import type { Transport } from '../../client/resumable-upload.ts';
import type { Context } from '../context.ts';
import { sendApiRequest, type ApiCaller, responseProblem } from '../remote/client.ts';
import { headerOf, readText } from '../io/http.ts';

/**
 * The transport of a service, as `client/resumable-upload.ts` takes it. Errors name where the API
 * key comes from.
 */
export function uploadTransport(service: ApiCaller, { timeouts }: Pick<Context, 'timeouts'>): Transport {
  return {
    async request({ path, ...o }) {
      const response = await sendApiRequest(service, path, { ...o, timeouts });
      const text = await readText(response);
      return { status: response.status, text, header: (name) => headerOf(response, name) };
    },
    errorOf: ({ status, text, header }) =>
      responseProblem({ status, text, headers: { 'retry-after': header('retry-after') } }, service),
  };
}
