/** The Worker: middleware, then the table of routes. */
import { Hono } from 'hono';
import type { App } from './http/app.ts';
import { cors } from './http/cors.ts';
import * as steps from './http/middleware.ts';
import { methodOverride, tus } from './http/tus.ts';
import { responseHeaders } from './openapi/headers.ts';
import { handlerOf } from './openapi/route.ts';
import { withoutReferrer } from './routes/shares/signed.ts';
import { signedUrlPath } from './routes/shares/shares-table.ts';
import { operatorRoutes } from './routes/operator/operator-table.ts';
import { routes } from './routes/table.ts';
import { addWeb, onlyOwnWorker } from './routes/web-pages.ts';

export { Account } from './objects/account/account.ts';
export { Metrics } from './objects/metrics/metrics.ts';
export { Pin } from './objects/pin/pin.ts';
export { Share } from './objects/share/share.ts';

const app = new Hono<App>();

const uploads = '/v1/uploads/*';
app.use(
  uploads,
  methodOverride((request, env, context) => app.fetch(request, env, context)),
);
const taken = routes
  .filter(({ who }) => who !== 'operator')
  .flatMap(({ headers, requiredHeaders }) => Object.keys({ ...headers, ...requiredHeaders }));
const crossOrigin = cors(taken, Object.keys(responseHeaders));
app.use(steps.requestId, steps.accessLog, steps.inertHeaders, steps.headLength);
app.use(onlyOwnWorker, crossOrigin, steps.checkedSettings, steps.rateLimitFields);
app.use(uploads, tus);
app.use(signedUrlPath, withoutReferrer, steps.notAsCode);
app.use('/ipfs/*', steps.notAsCode);
for (const [path, rows] of Map.groupBy(routes, (route) => route.path)) {
  for (const route of rows) {
    const handler = handlerOf(route);
    // Hono runs the handlers of GET for HEAD.
    if (route.method === 'head') app.on('get', [path], steps.onlyHead(handler));
    else app.on(route.method, [path], handler);
  }
  app.all(path, steps.methodNotAllowed(rows.map(({ method }) => method)));
}
addWeb(app);
// Until 1.0 the paths that the operator's routes had say where they are. A path that has a route by
// now is found before.
for (const { path } of operatorRoutes) app.all(path.replace('/operator/', '/'), steps.notFound(path));
app.notFound(steps.notFound());
app.onError(steps.onError);

export default app;
