/**
 * Requests of tus 1.0.0, and what our service responds to each. The same script runs against other
 * servers; where they respond differently is in `differences.ts`.
 */

/**
 * A request. `to` is the creation URL, the upload that the scenario has created, or one that nobody
 * has.
 */
type Ask = {
  method: string;
  to: 'endpoint' | 'upload' | 'nowhere';
  headers: Record<string, string>;
  body?: string;
};

/**
 * A status, and headers: their value, null where there must be none, `*` where any value will do.
 */
export type Answer = { status: number; headers?: Record<string, string | null> };

export type Step = { ask: Ask; answer: Answer };

export type Scenario = {
  steps: readonly Step[];
  /** Bytes that are stored at the end, if the upload is finished. */
  stored?: string;
};

const octets = { 'Content-Type': 'application/offset+octet-stream' };

function ask(method: string, to: Ask['to'], headers: Record<string, string | undefined>, body?: string): Ask {
  const all = { 'Tus-Resumable': '1.0.0', ...headers };
  const given = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return { method, to, headers: Object.fromEntries(given), ...(body === undefined ? {} : { body }) };
}

const step = (asked: Ask, status: number, headers?: Answer['headers']): Step => ({
  ask: asked,
  answer: { status, ...(headers && { headers }) },
});

const metadata = 'filename aGVsbG8udHh0,filetype dGV4dC9wbGFpbg==';
/** Makes a POST with a name, which a file needs in encrypted mode. */
const post = (headers: Record<string, string | undefined>, body?: string): Ask =>
  ask('POST', 'endpoint', { 'Upload-Metadata': metadata, ...headers }, body);
const patch = (offset: string | undefined, body: string, headers: Record<string, string | undefined> = {}): Ask =>
  ask('PATCH', 'upload', { ...octets, 'Upload-Offset': offset, ...headers }, body);
const head = ask('HEAD', 'upload', {});

const text = 'hello world';
const created = step(post({ 'Upload-Length': '11' }), 201, { Location: '*' });
const at = (offset: number): Step => step(head, 200, { 'Upload-Offset': String(offset), 'Upload-Length': '11' });
const finished = [step(patch('0', text), 204, { 'Upload-Offset': '11' }), at(11)];
const nowhere = (method: string): Step =>
  step(ask(method, 'nowhere', method === 'PATCH' ? { ...octets, 'Upload-Offset': '0' } : {}), 404, {
    'Upload-Offset': null,
  });

export const scenarios: Record<string, Scenario> = {
  'what the server can do': {
    steps: [
      step(ask('OPTIONS', 'endpoint', { 'Tus-Resumable': undefined }), 204, {
        'Tus-Version': '1.0.0',
        'Tus-Extension': 'creation,creation-with-upload,creation-defer-length,expiration,termination',
        'Tus-Max-Size': String(2 ** 35),
        'Tus-Checksum-Algorithm': null,
      }),
    ],
  },
  'another version': {
    steps: [
      step(post({ 'Upload-Length': '11', 'Tus-Resumable': '0.2.2' }), 412, {
        'Tus-Version': '1.0.0',
        Location: null,
      }),
      created,
      step(patch('0', text, { 'Tus-Resumable': '2.0.0' }), 412, { 'Tus-Version': '1.0.0', 'Upload-Offset': null }),
      at(0),
    ],
  },
  'no version': {
    steps: [
      step(post({ 'Upload-Length': '11', 'Tus-Resumable': undefined }), 412, { 'Tus-Version': '1.0.0' }),
      created,
      step(ask('HEAD', 'upload', { 'Tus-Resumable': undefined }), 412, { 'Tus-Version': '1.0.0' }),
    ],
  },
  'creation, then a part, then the rest': {
    steps: [
      step(post({ 'Upload-Length': '11' }), 201, {
        Location: '*',
        'Tus-Resumable': '1.0.0',
        'Upload-Expires': '*',
      }),
      step(head, 200, {
        'Upload-Offset': '0',
        'Upload-Length': '11',
        'Upload-Defer-Length': null,
        'Upload-Metadata': metadata,
        'Cache-Control': 'no-store',
        'Tus-Resumable': '1.0.0',
      }),
      step(patch('0', 'hello '), 204, { 'Upload-Offset': '6', 'Upload-Expires': '*', 'Tus-Resumable': '1.0.0' }),
      at(6),
      step(patch('6', 'world'), 204, { 'Upload-Offset': '11', 'Tus-Resumable': '1.0.0' }),
      at(11),
    ],
    stored: text,
  },
  'an empty file': {
    steps: [
      step(post({ 'Upload-Length': '0' }), 201, { Location: '*' }),
      step(head, 200, { 'Upload-Offset': '0', 'Upload-Length': '0' }),
    ],
    stored: '',
  },
  'creation with the whole file': {
    steps: [
      step(post({ 'Upload-Length': '11', ...octets }, text), 201, { Location: '*', 'Upload-Offset': '11' }),
      at(11),
    ],
    stored: text,
  },
  'creation with the beginning of the file': {
    steps: [
      step(post({ 'Upload-Length': '11', ...octets }, 'hello '), 201, { Location: '*', 'Upload-Offset': '6' }),
      step(patch('6', 'world'), 204, { 'Upload-Offset': '11' }),
    ],
    stored: text,
  },
  'creation with a body of another type': {
    steps: [step(post({ 'Upload-Length': '11', 'Content-Type': 'text/plain' }, text), 415, { Location: null })],
  },
  'creation with more bytes than announced': {
    steps: [step(post({ 'Upload-Length': '5', ...octets }, text), 413, { Location: null })],
  },
  'creation without a length': { steps: [step(post({}), 400, { Location: null })] },
  'creation with a length that is not a number': {
    steps: [
      step(post({ 'Upload-Length': 'eleven' }), 400),
      step(post({ 'Upload-Length': '-1' }), 400),
      step(post({ 'Upload-Length': '1.5' }), 400),
      step(post({ 'Upload-Length': '11x' }), 400),
    ],
  },
  'creation with a length that is too large': { steps: [step(post({ 'Upload-Length': String(2 ** 35 + 1) }), 413)] },
  'creation with and without a length': {
    steps: [step(post({ 'Upload-Length': '11', 'Upload-Defer-Length': '1' }), 400)],
  },
  'a length that comes later': {
    steps: [
      step(post({ 'Upload-Defer-Length': '1' }), 201, { Location: '*' }),
      step(head, 200, { 'Upload-Offset': '0', 'Upload-Length': null, 'Upload-Defer-Length': '1' }),
      step(patch('0', 'hello '), 204, { 'Upload-Offset': '6' }),
      step(head, 200, { 'Upload-Offset': '6', 'Upload-Length': null, 'Upload-Defer-Length': '1' }),
      step(patch('6', 'world', { 'Upload-Length': '11' }), 204, { 'Upload-Offset': '11' }),
      step(head, 200, { 'Upload-Offset': '11', 'Upload-Length': '11', 'Upload-Defer-Length': null }),
    ],
    stored: text,
  },
  'a length that comes at the very end': {
    steps: [
      step(post({ 'Upload-Defer-Length': '1' }), 201),
      step(patch('0', text), 204, { 'Upload-Offset': '11' }),
      step(patch('11', '', { 'Upload-Length': '11' }), 204, { 'Upload-Offset': '11' }),
    ],
    stored: text,
  },
  'a length that changes': {
    steps: [
      created,
      step(patch('0', 'hello ', { 'Upload-Length': '12' }), 400),
      at(0),
      step(patch('0', 'hello ', { 'Upload-Length': '11' }), 204, { 'Upload-Offset': '6' }),
    ],
  },
  'a length below what has come': {
    steps: [
      step(post({ 'Upload-Defer-Length': '1' }), 201),
      step(patch('0', text), 204, { 'Upload-Offset': '11' }),
      step(patch('11', '', { 'Upload-Length': '5' }), 400),
    ],
  },
  'a deferred length of another value': { steps: [step(post({ 'Upload-Defer-Length': '2' }), 400)] },
  'metadata that is not base64': {
    steps: [step(post({ 'Upload-Length': '11', 'Upload-Metadata': 'filename not=base64!' }), 400)],
  },
  'metadata with a key twice': {
    steps: [step(post({ 'Upload-Length': '11', 'Upload-Metadata': 'filename YQ==,filename Yg==' }), 400)],
  },
  'metadata with a key alone': {
    steps: [
      step(post({ 'Upload-Length': '11', 'Upload-Metadata': 'filename YQ==,is_confidential' }), 201),
      step(head, 200, { 'Upload-Metadata': 'filename YQ==,is_confidential' }),
    ],
  },
  'a PATCH at another offset': {
    steps: [
      created,
      step(patch('5', text), 409, { 'Upload-Offset': null }),
      at(0),
      step(patch('0', 'hello '), 204, { 'Upload-Offset': '6' }),
      step(patch('0', 'hello '), 409),
      at(6),
    ],
  },
  'a PATCH of another type': {
    steps: [
      created,
      step(patch('0', text, { 'Content-Type': 'application/octet-stream' }), 415),
      step(patch('0', text, { 'Content-Type': undefined }), 415),
      at(0),
    ],
  },
  'a PATCH without an offset, or with one that is not a number': {
    steps: [
      created,
      step(patch(undefined, text), 400),
      step(patch('-1', text), 400),
      step(patch('zero', text), 400),
      step(patch('0x0', text), 400),
      at(0),
    ],
  },
  'a PATCH with more bytes than are missing': { steps: [created, step(patch('0', `${text}!`), 413)] },
  'a PATCH without bytes': {
    steps: [created, step(patch('0', ''), 204, { 'Upload-Offset': '0' }), at(0)],
  },
  'PATCHes of a finished upload': {
    steps: [
      created,
      ...finished,
      step(patch('11', ''), 204, { 'Upload-Offset': '11' }),
      step(patch('0', text), 409),
      at(11),
    ],
    stored: text,
  },
  termination: {
    steps: [
      created,
      step(patch('0', 'hello '), 204),
      step(ask('DELETE', 'upload', {}), 204, { 'Tus-Resumable': '1.0.0' }),
      step(head, 404, { 'Upload-Offset': null }),
      step(patch('6', 'world'), 404),
      step(ask('DELETE', 'upload', {}), 404),
    ],
  },
  'termination of a finished upload': {
    steps: [created, ...finished, step(ask('DELETE', 'upload', {}), 204), step(head, 404, { 'Upload-Offset': null })],
  },
  'an upload that does not exist': {
    steps: [nowhere('HEAD'), nowhere('PATCH'), nowhere('DELETE')],
  },
  'methods in a header': {
    steps: [
      created,
      step(ask('POST', 'upload', { ...octets, 'Upload-Offset': '0', 'X-HTTP-Method-Override': 'PATCH' }, text), 204, {
        'Upload-Offset': '11',
      }),
      step(ask('POST', 'upload', { 'X-HTTP-Method-Override': 'DELETE' }), 204),
      step(head, 404),
    ],
  },
  'extensions that the server does not offer': {
    steps: [
      step(post({ 'Upload-Length': '11', 'Upload-Concat': 'partial' }), 400, { Location: null }),
      step(post({ 'Upload-Concat': 'final;/a /b' }), 400, { Location: null }),
      created,
      step(patch('0', text, { 'Upload-Checksum': 'sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0=' }), 204, {
        'Upload-Offset': '11',
      }),
    ],
    stored: text,
  },
};
