/** `GET /v1/health`. */
import type { Health } from '../shared/api.ts';
import type { Ctx } from './app.ts';
import { maxUploadBytes, version } from './env.ts';

/** Version and limits: what a client checks before it sends. */
export function health(c: Ctx): Response {
  const body: Health = { status: 'ok', version, maxUploadBytes: maxUploadBytes(c.env) ?? null };
  return c.json(body, 200, { 'Cache-Control': 'no-store' });
}
