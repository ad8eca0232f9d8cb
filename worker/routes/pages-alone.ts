/** The pages without the rest of the service, for those who make their digests. */
import { Hono } from 'hono';
import { web } from 'sealpin:web';
import type { App } from '../http/app.ts';
import { addWeb } from './web-pages.ts';

const pagesApp = new Hono<App>();
addWeb(pagesApp);

/** SHA-256 in hex of all pages, as health has it. */
export const { hash } = web;

/**
 * The paths of all documents and files, relative to the service's root, and of each document with a
 * `#` that arrives in the path.
 */
export const paths: readonly string[] = [
  ...web.documents.flatMap((document) =>
    document.paths.flatMap((path) => (path === '' ? [''] : [path, `${path}%231`])),
  ),
  ...web.files.map(({ path }) => path),
];

/** Asks for a page, as a client without compression does. */
export async function ask(path: string): Promise<Response> {
  return pagesApp.request(`/${path}`);
}
