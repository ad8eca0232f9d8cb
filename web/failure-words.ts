/** Error texts. */
import { EngineError, isEngineError } from './engine-client.ts';
import { CutOff, TooLargeToSave } from './save.ts';
import type { Words } from './words/en.ts';

/** Words for codes; the rest are faults of the page or of the service. */
const byCode: Partial<Record<EngineError['code'], keyof Words['errors']>> = {
  decrypt_failed: 'damaged',
  header_invalid: 'damaged',
  container_invalid: 'damaged',
  content_mismatch: 'damaged',
  cid_mismatch: 'damaged',
  unsupported_version: 'unsupported',
  not_found: 'absent',
  gone: 'absent',
  content_denied: 'denied',
  service_unreachable: 'unreachable',
  pinning_unavailable: 'unreachable',
  pinning_timeout: 'unreachable',
  service_answer: 'unreachable',
  rate_limited: 'busy',
  finishing: 'busy',
  overloaded: 'busy',
  disk_full: 'disk_full',
};

/** Codes that mean something else to who receives; a page has the words of its side alone. */
const whenReceiving: typeof byCode = {
  aborted: 'aborted',
  pinning_lost: 'lost',
  not_encrypted: 'not_encrypted',
  password_invalid: 'wrong_password',
  key_invalid: 'key_invalid',
  parcel_invalid: 'damaged',
  invalid_filename: 'damaged',
  wrong_kind: 'needs_link',
};

/** A sentence about a failure, and whether another password or key could help. */
export function describeFailure(error: unknown, { errors }: Words): { text: string; isCredential: boolean } {
  if (error instanceof TooLargeToSave) return { text: errors.no_room, isCredential: false };
  if (error instanceof CutOff) return { text: errors.cut_off, isCredential: false };
  if (!(error instanceof EngineError)) return { text: errors.other, isCredential: false };
  const { code, reason } = error;
  if (reason === 'wrong_password' || reason === 'no_key') return { text: errors[reason], isCredential: true };
  const isCredential = code === 'password_invalid' || code === 'key_invalid';
  return { text: errors[whenReceiving[code] ?? byCode[code] ?? 'other'], isCredential };
}

/** Codes that mean something else to who sends. */
const whenSending: typeof byCode = {
  aborted: 'not_sent',
  unauthorized: 'api_key',
  account_disabled: 'disabled',
  link_invalid: 'api_key',
  insufficient_scope: 'scope',
  forbidden: 'forbidden',
  quota_exceeded: 'quota',
  too_large: 'too_large',
  invalid_filename: 'name',
  parcel_invalid: 'too_much',
  password_invalid: 'password',
  key_invalid: 'public_key',
  no_recipients: 'public_key',
  invalid_request: 'terms',
  wrong_kind: 'no_link',
  not_encrypted: 'no_link',
  pinning_failed: 'unreachable',
};

/** Tells whether the API key of a page does nothing any more, nor the link that has it. */
export const isOver = (error: unknown): boolean => isEngineError(error, 'unauthorized');

/** Sentences for a guest, who has no API key and no account. */
let toGuests: Partial<Record<EngineError['code'], string>> = {};
export function speakToGuests({ errors, guestEndedTitle }: Words): void {
  toGuests = { unauthorized: `${guestEndedTitle}.`, quota_exceeded: errors.guest_quota };
}

/** A sentence about why something was not sent, changed or deleted. */
export function describeSendingFailure(error: unknown, { errors }: Words): string {
  const { code } = error instanceof EngineError ? error : {};
  return (code && toGuests[code]) ?? errors[(code && (whenSending[code] ?? byCode[code])) ?? 'other'];
}
