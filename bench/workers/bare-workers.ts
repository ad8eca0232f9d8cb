/**
 * The Workers that the service is measured beside: one that only passes a body on, one that does
 * the least that an upload needs (it reads MiB by MiB, hashes each and sends it on), and one that
 * makes one KV read and one object call.
 */
import { DurableObject } from 'cloudflare:workers';
import { Hono } from 'hono';

type BareEnv = { API_KEYS: KVNamespace; ACCOUNT: DurableObjectNamespace<Account>; SINK: string };

export class Account extends DurableObject<BareEnv> {
  row(id: string): { id: string; size: number } | undefined {
    const { sql } = this.ctx.storage;
    sql.exec('CREATE TABLE IF NOT EXISTS file (id TEXT PRIMARY KEY, size INTEGER)');
    sql.exec('INSERT INTO file VALUES (?, 1) ON CONFLICT DO NOTHING', 'a');
    return sql.exec<{ id: string; size: number }>('SELECT * FROM file WHERE id = ?', id).toArray()[0];
  }
}

const app = new Hono<{ Bindings: BareEnv }>();
app.get('/small', async (c) => {
  const record = await c.env.API_KEYS.get('key', { type: 'json', cacheTtl: 60 });
  const row = await c.env.ACCOUNT.getByName('a').row('a');
  return c.json({ record, row });
});
app.post('/pass', async (c) => {
  const answer = await fetch(`${c.env.SINK}/api/v0/add`, { method: 'POST', body: c.req.raw.body });
  return c.text(await answer.text());
});

app.post('/least', async (c) => {
  const bytes = 1024 * 1024;
  const { body } = c.req.raw;
  if (body === null) return c.text('no body', 400);
  const { readable, writable } = new FixedLengthStream(Number(c.req.header('Content-Length')));
  const answer = fetch(`${c.env.SINK}/api/v0/add`, { method: 'POST', body: readable });
  const writer = writable.getWriter();
  const reader = body.getReader({ mode: 'byob' });
  for (;;) {
    const { value, done } = await reader.readAtLeast(bytes, new Uint8Array(bytes));
    if (value !== undefined && value.length > 0)
      await Promise.all([crypto.subtle.digest('SHA-256', value), writer.write(value)]);
    if (done) break;
  }
  await writer.close();
  return c.text(await (await answer).text());
});

// oxlint-disable-next-line import/no-default-export -- workerd looks for it there
export default app;
