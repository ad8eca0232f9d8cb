/** All files of an account. */
import type { StoredFile } from '../../shared/api.ts';
import type { Context } from '../context.ts';
import { api, refuseEmptyPage } from './client.ts';
import type { Service } from './service-choice.ts';

const pageFiles = 100;

/** The files of the account, the oldest first, page by page. @throws what the service refuses with, service_answer */
export async function* everyFile(service: Service, context: Context): AsyncGenerator<StoredFile, void, undefined> {
  const routes = api(service, context);
  let cursor: string | undefined;
  do {
    const page = await routes.list({ cursor, limit: pageFiles, order: 'asc' });
    refuseEmptyPage(page);
    yield* page.files;
    cursor = page.cursor;
  } while (cursor !== undefined);
}
