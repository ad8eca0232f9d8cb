/** The rows of pins: a file's verification, and what the operator sees and does. */
import {
  FileId,
  Migration,
  MigrationList,
  MigrationRequest,
  PinPage,
  PinsQuery,
  Repair,
  Verification,
} from '../../../shared/api.ts';
import { cancelMigration, createMigration, listMigrations, listPins, repairPins, verifyFile } from './pins.ts';
import type { Route } from '../../openapi/route.ts';

const json = 'application/json';

export const pinRoutes: readonly Route[] = [
  {
    method: 'post',
    path: '/v1/storage/:fileId/verification',
    operationId: 'verifyFile',
    summary: 'Reads all bytes of a file from each service that holds it, and compares them with its CID',
    description: 'A file that takes longer than some seconds is 202: it is read on, and the file’s `pins` say when.',
    params: { fileId: FileId },
    who: 'key',
    scope: 'read',
    responses: { 200: { [json]: Verification }, 202: { [json]: Verification } },
    codes: ['not_found', 'finishing', 'content_denied'],
    handler: verifyFile,
  },
  {
    method: 'get',
    path: '/v1/pins',
    operationId: 'listPins',
    summary: 'A page of the pins of all accounts, with the files that need them',
    who: 'operator',
    query: PinsQuery,
    responses: { 200: { [json]: PinPage } },
    codes: ['invalid_request'],
    handler: listPins,
  },
  {
    method: 'post',
    path: '/v1/repair',
    operationId: 'repairPins',
    summary: 'Asks the pinning services for every pin, and copies again what is lost',
    who: 'operator',
    responses: { 202: { [json]: Repair } },
    codes: [],
    handler: repairPins,
  },
  {
    method: 'post',
    path: '/v1/migrations',
    operationId: 'createMigration',
    summary: 'Moves everything from one pinning service to another',
    description:
      'Both are configured. What is at `from` is unpinned once every byte was read from `to`. Can be repeated.',
    who: 'operator',
    body: { [json]: MigrationRequest },
    responses: { 202: { [json]: Migration } },
    responseHeaders: { 202: ['Location'] },
    links: { cancelMigration: { from: '/from', to: '/to' } },
    codes: ['invalid_json', 'invalid_request', 'too_large', 'unsupported_media_type'],
    handler: createMigration,
  },
  {
    method: 'get',
    path: '/v1/migrations',
    operationId: 'listMigrations',
    summary: 'How far the migrations are',
    who: 'operator',
    responses: { 200: { [json]: MigrationList } },
    codes: [],
    handler: listMigrations,
  },
  {
    method: 'delete',
    path: '/v1/migrations/:from/:to',
    operationId: 'cancelMigration',
    summary: 'Ends a migration; what has not moved stays where it was',
    who: 'operator',
    responses: { 200: { [json]: Migration } },
    codes: [],
    handler: cancelMigration,
  },
];
