/** Description of a stored file beside its bytes, sent to a service with copies and restored files. */
import { StoredFile } from '../../shared/api.ts';
import { cleanFilename } from '../../shared/filename.ts';
import type { Context } from '../context.ts';
import { call, json, jsonBody } from '../remote/client.ts';
import type { Service } from '../remote/service-choice.ts';

/** A description, as the API and sealed headers have it. `null`, an empty type and what is missing say nothing. */
export type Description = {
  readonly filename?: string | null | undefined;
  readonly contentType?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly tags?: readonly string[] | undefined;
  readonly expiresAt?: string | undefined;
};

/**
 * Describes a file at a service. The API key needs the scopes `read` and `write`, and `delete` for an expiry.
 *
 * @throws insufficient_scope and what else the service refuses with
 */
export async function describeFile(
  service: Service,
  fileId: string,
  { filename, contentType, metadata, tags, expiresAt }: Description,
  { signal, timeouts }: Pick<Context, 'signal' | 'timeouts'>,
): Promise<void> {
  const change = {
    ...(filename === undefined || filename === null ? {} : { filename: cleanFilename(filename) }),
    ...(contentType === undefined || contentType === '' ? {} : { contentType }),
    ...(metadata === undefined ? {} : { metadata }),
    ...(tags === undefined ? {} : { tags }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
  };
  if (Object.keys(change).length === 0) return;
  const request = { method: 'PATCH', ...jsonBody(change), signal, timeouts } as const;
  await json(await call(service, `v1/storage/${fileId}`, request), StoredFile, service.url);
}
