/** The Worker: middleware, then the table of routes. */
import { Hono } from 'hono';
import type { App } from './http/app.ts';
import { cors } from './http/cors.ts';
import { methodNotAllowed, notFound, onError, requestId } from './http/middleware.ts';
import { handlerOf, middlewareOf } from './routes/route.ts';
import { routes } from './routes/table.ts';

export { Account } from './objects/account.ts';
export { Pin } from './objects/pin.ts';

const app = new Hono<App>();

app.use(requestId, cors);
for (const [path, rows] of Map.groupBy(routes, (route) => route.path)) {
  for (const route of rows) app.on(route.method, [path], ...middlewareOf(route), handlerOf(route));
  app.all(path, methodNotAllowed(rows.map(({ method }) => method)));
}
app.notFound(notFound);
app.onError(onError);

export default app;
