/** The edge service: every request takes its way down this list. */
import { Hono } from 'hono';
import { SealpinError } from '../shared/errors.ts';
import { createAccount, deleteAccount, readAccount, readRecovery, recoverAccount } from './routes/accounts.ts';
import type { App, Ctx } from './http/app.ts';
import { download } from './routes/read.ts';
import { list, remove } from './routes/files.ts';
import { gateway } from './routes/ipfs.ts';
import { health } from './routes/health.ts';
import { createKey, listKeys, revokeKey } from './routes/keys.ts';
import { perAddress } from './auth/rate-limit.ts';
import { openapi } from './routes/openapi.ts';
import { problem } from './http/problem.ts';
import { failed, knownQuery, named, shared } from './http/middleware.ts';
import { upload } from './routes/upload.ts';

export { Account } from './objects/account.ts';
export { Pin } from './objects/pin.ts';

const app = new Hono<App>();

app.use(named, shared);
app.use('/v1/*', knownQuery);

app.get('/v1/health', health).all(only('GET'));
app.get('/v1/openapi.json', openapi).all(only('GET'));

app.use('/v1/accounts/*', perAddress);
app.post('/v1/accounts', createAccount).all(only('POST'));
app.delete('/v1/accounts/:id', deleteAccount).all(only('DELETE'));
app.get('/v1/accounts/:id/recovery', readRecovery).all(only('GET'));
app.post('/v1/accounts/:id/recover', recoverAccount).all(only('POST'));
app.get('/v1/account', readAccount).all(only('GET'));

app.get('/v1/keys', listKeys).post(createKey).all(only('GET', 'POST'));
app.delete('/v1/keys/:id', revokeKey).all(only('DELETE'));

app.post('/v1/storage/encrypted', upload('encrypted')).all(only('POST'));
app.post('/v1/storage/plain', upload('plain')).all(only('POST'));
app.get('/v1/storage', list).all(only('GET'));
app.get('/v1/storage/:fileId', download).delete(remove).all(only('GET', 'DELETE'));

app.use('/ipfs/*', perAddress);
app.get('/ipfs/:cid', gateway).all(only('GET'));

// An answer and not an error, which would go past the headers for pages.
app.notFound((c) => problem(new SealpinError('not_found', 'there is no such route'), c.get('requestId')));
app.onError(failed);

/** Answers all other methods of a route. */
function only(...methods: string[]) {
  return (c: Ctx): Response => {
    const answer = problem(new SealpinError('method_not_allowed'), c.var.requestId);
    answer.headers.set('Allow', methods.flatMap((each) => (each === 'GET' ? ['GET', 'HEAD'] : [each])).join(', '));
    return answer;
  };
}

export default app;
