/** Differences of other servers' responses from ours, and the reasons for ours. */
import type { Answer } from './script.ts';

export type OtherServer = 'tusd' | '@tus/server';

type Difference = {
  server: OtherServer;
  why: string;
  /** Answers by the name of a scenario and the number of its step, from 1. */
  answers: Record<string, Record<number, Partial<Answer>>>;
};

const bothOthers = ['tusd', '@tus/server'] as const;
const location = { Location: '*' };

export const differences: readonly Difference[] = [
  {
    server: 'tusd',
    why: 'tusd offers concatenation, not expiration, and responds 200; the protocol allows 200 and 204.',
    answers: {
      'what the server can do': {
        1: {
          status: 200,
          headers: { 'Tus-Extension': 'creation,creation-with-upload,termination,concatenation,creation-defer-length' },
        },
      },
      'creation, then a part, then the rest': {
        1: { headers: { 'Upload-Expires': null } },
        3: { headers: { 'Upload-Expires': null } },
      },
      'extensions that the server does not offer': {
        1: { status: 201, headers: location },
        2: { status: 404 },
      },
    },
  },
  {
    server: '@tus/server',
    why: 'The same extensions in another order, which means nothing.',
    answers: {
      'what the server can do': {
        1: {
          headers: { 'Tus-Extension': 'creation,creation-with-upload,creation-defer-length,termination,expiration' },
        },
      },
    },
  },
  {
    server: 'tusd',
    why: 'A 412 must name the versions of the server, and a HEAD needs a version like every request.',
    answers: {
      'another version': { 1: { headers: { 'Tus-Version': null } }, 3: { headers: { 'Tus-Version': null } } },
      'no version': {
        1: { headers: { 'Tus-Version': null } },
        3: { status: 200, headers: { 'Tus-Version': null } },
      },
    },
  },
  {
    server: '@tus/server',
    why: 'Another version is 412, not 400, and the response must name the versions of the server.',
    answers: {
      'another version': {
        1: { status: 400, headers: { 'Tus-Version': null } },
        3: { status: 400, headers: { 'Tus-Version': null } },
      },
      'no version': { 1: { headers: { 'Tus-Version': null } }, 3: { headers: { 'Tus-Version': null } } },
    },
  },
  {
    server: 'tusd',
    why: 'A HEAD must return the metadata as given; tusd keeps a map, in any order, and drops what it cannot read.',
    answers: {
      'creation, then a part, then the rest': { 2: { headers: { 'Upload-Metadata': '*' } } },
      'metadata with a key alone': { 2: { headers: { 'Upload-Metadata': '*' } } },
      'metadata that is not base64': { 1: { status: 201 } },
      'metadata with a key twice': { 1: { status: 201 } },
    },
  },
  {
    server: 'tusd',
    why: 'The protocol names 415 for a PATCH of another type.',
    answers: { 'a PATCH of another type': { 2: { status: 400 }, 3: { status: 400 } } },
  },
  {
    server: '@tus/server',
    why: 'The protocol names 415 for a PATCH of another type; 403 says that a request is not permitted, not malformed.',
    answers: {
      'a PATCH of another type': { 2: { status: 400 }, 3: { status: 403 } },
      'a PATCH without an offset, or with one that is not a number': { 2: { status: 403 } },
    },
  },
  ...bothOthers.map((server) => ({
    server,
    why: 'They take no notice of a body that they do not store; its sender would believe that it is stored.',
    answers: { 'creation with a body of another type': { 1: { status: 201, headers: location } } },
  })),
  ...bothOthers.map((server) => ({
    server,
    why: 'A length that is sent again unchanged contradicts nothing.',
    answers: { 'a length that changes': { 4: { status: 400, headers: { 'Upload-Offset': null } } } },
  })),
  {
    server: '@tus/server',
    why: 'X-HTTP-Method-Override must be honoured.',
    answers: {
      'methods in a header': {
        2: { status: 400, headers: { 'Upload-Offset': null } },
        3: { status: 400 },
        4: { status: 200 },
      },
    },
  },
  {
    server: '@tus/server',
    why: '501 is the status of a method that the server does not know; this is a header that this server cannot serve.',
    answers: { 'extensions that the server does not offer': { 1: { status: 501 }, 2: { status: 501 } } },
  },
];
