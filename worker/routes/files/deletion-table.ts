/** The rows of deletions of many files, and of what became of one. */
import { DeletedFiles, FileId, FilesToDelete, Receipt } from '../../../shared/api.ts';
import { deleteFiles, readReceipt } from './files.ts';
import type { Route } from '../../openapi/route.ts';

const json = 'application/json';

export const deletionRoutes: readonly Route[] = [
  {
    method: 'post',
    path: '/v1/storage/delete',
    operationId: 'deleteFiles',
    summary: 'Deletes up to 1,000 files at once, and ends their shares',
    who: 'key',
    scope: 'delete',
    body: { [json]: FilesToDelete },
    responses: { 200: { [json]: DeletedFiles } },
    codes: ['invalid_json', 'too_large', 'unsupported_media_type', 'finishing'],
    handler: deleteFiles,
  },
  {
    method: 'get',
    path: '/v1/storage/:fileId/receipt',
    operationId: 'getReceipt',
    summary: 'What became of a file that was deleted or has expired, for 90 days',
    params: { fileId: FileId },
    who: 'key',
    scope: 'read',
    responses: { 200: { [json]: Receipt } },
    codes: ['not_found'],
    handler: readReceipt,
  },
];
