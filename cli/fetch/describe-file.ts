/**
 * Description of a stored file beside its bytes, sent to a service with copies and restored files.
 */
import { StoredFile } from '../../shared/api.ts';
import { cleanFilename } from '../../shared/filename.ts';
import type { Context } from '../context.ts';
import type { Service } from '../remote/service-choice.ts';
import { requester } from '../remote/client.ts';

/**
 * A description, as the API and sealed headers have it. `null`, an empty type and what is missing
 * say nothing.
 */
export type FileDescription = {
  readonly filename?: string | null | undefined;
  readonly contentType?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly tags?: readonly string[] | undefined;
  /** `null`: no end any more. */
  readonly expiresAt?: string | null | undefined;
};

/**
 * Describes a file at a service, which takes the scopes `read` and `write`, and `delete` for an
 * expiry.
 */
export async function describeFile(
  service: Service,
  fileId: string,
  { filename, contentType, metadata, tags, expiresAt }: FileDescription,
  context: Pick<Context, 'signal' | 'timeouts'>,
): Promise<void> {
  // JSON leaves out what is undefined.
  const change = {
    filename: typeof filename === 'string' ? cleanFilename(filename) : undefined,
    contentType: contentType || undefined,
    metadata,
    tags,
    expiresAt,
  };
  if (Object.values(change).every((value) => value === undefined)) return;
  await requester(service, context)(StoredFile, `v1/storage/${fileId}`, 'PATCH', change);
}
