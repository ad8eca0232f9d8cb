/**
 * Exit codes of failures: 1 none of the others, 2 usage, 3 not found or ended, 4 a password or key
 * that does not fit, 5 damaged or wrong bytes, 6 the service or network, 7 quota or disk, 130
 * interrupted.
 */
type Exit = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 130;

/**
 * One table of every failure: the HTTP API, the command line and the shared rooms all use these
 * codes. `status` is the HTTP status, `exit` the exit code of the command line, 1 where there is
 * none. `fault` says who can act, the user where there is none: the detail of a `user` fault may be
 * shown to clients, that of a `system` fault may reveal internals and stays in the log.
 */
type CodeRow = { status: number; exit?: Exit; fault?: 'user' | 'system'; title: string };

/** The service fails, or what it depends on. */
const system = { exit: 6, fault: 'system' } as const;

const table = {
  // Requests
  invalid_request: { status: 400, exit: 2, title: 'The request is not valid' },
  invalid_json: { status: 400, title: 'The JSON is not valid' },
  invalid_base64: { status: 400, title: 'The base64 is not valid' },
  invalid_filename: { status: 400, exit: 2, title: 'The filename is not valid' },
  invalid_cid: { status: 400, exit: 2, title: 'The blob ID is not valid' },
  body_incomplete: { status: 400, exit: 6, title: 'The body ended early' },
  body_timeout: { status: 408, exit: 6, title: 'The body stalled' },
  unauthorized: { status: 401, exit: 4, title: 'The API key is missing, unknown, expired or revoked' },
  insufficient_scope: { status: 403, exit: 4, title: 'The API key may not do this' },
  forbidden: { status: 403, exit: 4, title: 'Not allowed' },
  account_disabled: { status: 403, exit: 4, title: 'The operator has disabled this account' },
  not_found: { status: 404, exit: 3, title: 'Not found' },
  method_not_allowed: { status: 405, title: 'This method is not allowed here' },
  not_acceptable: { status: 406, title: 'No acceptable representation' },
  conflict: { status: 409, title: 'The request conflicts with the current state' },
  idempotency_running: { status: 409, exit: 6, title: 'The first request with this Idempotency-Key is still running' },
  finishing: { status: 409, exit: 6, title: 'The file is being stored: every byte of its upload has arrived' },
  offset_mismatch: { status: 409, exit: 6, title: 'The upload is not at this offset' },
  too_many_uploads: { status: 409, exit: 7, title: 'Too many unfinished uploads' },
  gone: { status: 410, exit: 3, title: 'This was deleted' },
  // As path gateways answer for a denylist
  // (https://specs.ipfs.tech/http-gateways/path-gateway/#410-gone). 451 is for legal demands.
  content_denied: { status: 410, exit: 3, title: 'The operator of this service has put these bytes on its denylist' },
  precondition_failed: { status: 412, title: 'A precondition of the request does not hold' },
  too_large: { status: 413, exit: 7, title: 'The body is larger than this service accepts' },
  quota_exceeded: { status: 413, exit: 7, title: 'The API key or the account has no room for this' },
  unsupported_media_type: { status: 415, title: 'This content type is not supported' },
  range_not_satisfiable: { status: 416, title: 'The range is outside the file' },
  cid_mismatch: { status: 422, exit: 5, title: 'The bytes do not match the announced blob ID' },
  digest_mismatch: { status: 422, exit: 5, title: 'The body does not match its digest' },
  idempotency_mismatch: { status: 422, title: 'This Idempotency-Key was used with other parameters' },
  upload_changed: { status: 422, title: 'The file changed while it was uploaded' },
  upload_busy: { status: 423, exit: 6, title: 'Upload temporarily locked' },
  rate_limited: { status: 429, exit: 6, title: 'Too many requests' },
  // The service and what it depends on
  internal: { status: 500, ...system, title: 'Internal error of the service' },
  misconfigured: { status: 500, ...system, title: 'The service is misconfigured' },
  backend_changed: { status: 500, ...system, title: 'The service looks for files where they were not stored' },
  pinning_failed: { status: 502, ...system, title: 'Unexpected response from the pinning service' },
  pinning_lost: {
    status: 502,
    ...system,
    exit: 3,
    title: 'The pinning service no longer has this file (asked offline)',
  },
  content_mismatch: { status: 502, exit: 5, fault: 'system', title: 'The content does not match its blob ID' },
  overloaded: { status: 503, ...system, title: 'Too busy at the moment' },
  pinning_unavailable: { status: 503, ...system, title: 'The pinning service cannot be reached' },
  pinning_timeout: { status: 504, ...system, title: 'The pinning service did not respond in time' },
  // Containers and keys
  decrypt_failed: {
    status: 422,
    exit: 4,
    title: 'It cannot be decrypted: wrong password or key, or the data is damaged',
  },
  header_invalid: { status: 422, exit: 5, title: 'The header of the container is not valid' },
  unsupported_version: { status: 422, title: 'Unknown container format' },
  container_invalid: { status: 422, exit: 5, title: 'The container is incomplete, or has data after its end' },
  archive_invalid: { status: 422, exit: 5, title: 'The archive cannot be extracted safely' },
  kdf_unavailable: { status: 422, title: "The password's key derivation is too expensive for this runtime" },
  parcel_invalid: { status: 422, exit: 5, title: 'The parcel is not valid' },
  link_invalid: { status: 400, exit: 2, title: 'The link is not valid' },
  key_invalid: { status: 400, exit: 2, title: 'The key is not valid' },
  password_invalid: { status: 400, exit: 2, title: 'The password is not valid' },
  no_recipients: { status: 400, exit: 2, title: 'No recipients' },
  not_encrypted: { status: 422, exit: 4, title: 'It is not encrypted' },
  wrong_kind: { status: 422, exit: 4, title: 'Wrong kind of credential: it needs a password, or a private key' },
  random_failed: { status: 500, fault: 'system', title: "The system's random number generator failed a check" },
  // The command line
  usage: { status: 400, exit: 2, title: 'Invalid usage' },
  file_exists: { status: 409, title: 'The file exists' },
  file_not_found: { status: 404, exit: 3, title: 'There is no such file' },
  file_unreadable: { status: 400, title: 'The file cannot be read' },
  file_unwritable: { status: 400, title: 'The file cannot be written' },
  file_changed: { status: 409, title: 'The file changed while it was read' },
  disk_full: { status: 507, exit: 7, title: 'The disk is full' },
  config_invalid: { status: 400, title: 'The configuration cannot be used' },
  service_unreachable: { status: 503, exit: 6, title: 'The service cannot be reached' },
  service_answer: { status: 502, exit: 6, title: 'Unexpected response: not a Sealpin service' },
  already_running: { status: 409, title: 'The local service is already running' },
  not_running: { status: 409, exit: 6, title: 'No local service is running' },
  port_in_use: { status: 409, title: 'The port is in use' },
  not_installed: { status: 500, title: 'A package is not installed' },
  build_failed: { status: 500, title: 'The Worker does not build' },
  interrupted: { status: 499, exit: 130, title: 'Interrupted' },
} as const satisfies Record<string, CodeRow>;

/**
 * Advice for a client of the API: never a command or a flag of the command line, which has hints
 * of its own.
 */
const hints: Readonly<Partial<Record<Code, string>>> = {
  invalid_filename: 'use 1 to 255 bytes of UTF-8 without control characters and path separators',
  invalid_cid: 'a blob ID is a CIDv1 in lower-case base32, such as bafkrei… or bafybei…',
  body_incomplete: 'send the upload again',
  body_timeout: 'send the upload again',
  unauthorized: 'send Authorization: Bearer sp_…',
  account_disabled: 'ask the operator of the service; what is stored stays',
  finishing: 'wait as long as Retry-After says, and ask again',
  offset_mismatch: 'ask HEAD for the offset, and resume there',
  too_many_uploads:
    'finish or terminate some: GET /v1/uploads lists them, for a key with keys those of the ' +
    'account; they expire after 7 days',
  content_denied: 'ask the operator of the service; its owner can still delete the file',
  cid_mismatch: 'the bytes changed on the way; nothing was kept, send them again',
  digest_mismatch: 'the bytes changed on the way; none of this request were kept, send them again',
  idempotency_mismatch: 'use a new key for a new upload',
  upload_changed: 'nothing was kept; begin a new upload',
  upload_busy: 'wait as long as Retry-After says, then ask HEAD for the offset',
  rate_limited: 'wait as long as Retry-After says',
  internal: 'contact the operator and quote the requestId',
  misconfigured: 'contact the operator: the log of the service has the reason',
  backend_changed:
    'contact the operator: an ID of a backend now names another kind, bucket or prefix, and needs one of its own',
  pinning_failed: 'nothing was kept; try again',
  pinning_lost: 'store the same bytes again, or put them back on the node of the pinning service',
  content_mismatch: 'try another source of the same blob ID',
  overloaded: 'try again shortly',
  pinning_unavailable: 'try again shortly',
  pinning_timeout: 'try again shortly',
  unsupported_version: 'a newer version of Sealpin may be able to read it',
  kdf_unavailable: 'open it on a machine with more memory',
  link_invalid: 'copy all of the link, or ask its sender for it again',
  no_recipients: 'name at least one public key',
  not_encrypted: 'omit the password or key to fetch it unchanged',
  file_changed: 'nothing was kept; try again once nothing writes to it',
  disk_full: 'free some space and try again',
};

/** The codes of all failures. */
export type Code = keyof typeof table;

/** All codes, for documents and tests. */
export const codes = Object.keys(table) as Code[];

/** The table's entry for a code. */
export function describe(code: Code): Required<CodeRow> & { readonly hint: string | undefined } {
  return { exit: 1, fault: 'user', ...table[code], hint: hints[code] };
}

/** Reasons whose exit code is another than that of their code. */
const exitByReason: Readonly<Record<string, Exit>> = { header: 5, payload: 5, bug: 1 };

/** The exit code of a failure. */
export function exitOf({ code, reason = '' }: { readonly code: Code; readonly reason?: string | undefined }): Exit {
  return (Object.hasOwn(exitByReason, reason) ? exitByReason[reason] : undefined) ?? describe(code).exit;
}

/** Recognizes one of our codes in text, for example from an HTTP response. */
export function isCode(text: unknown): text is Code {
  return typeof text === 'string' && Object.hasOwn(table, text);
}
