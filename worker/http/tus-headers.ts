/** The headers of tus 1.0.0, parsed and written. */
import * as v from 'valibot';
import { UploadDetails } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import { invalidRequest } from './validation.ts';

export const tusExtensions = ['creation', 'creation-with-upload', 'creation-defer-length', 'expiration', 'termination'];

/** The most characters of `Upload-Metadata`. */
const maxMetadataChars = 4096;

/**
 * Parses a header with a number of bytes. @param name of the header
 * @throws invalid_request
 */
export function parseBytes(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const bytes = Number(text);
  if (!/^[0-9]{1,16}$/.test(text) || !Number.isSafeInteger(bytes))
    throw new SealpinError('invalid_request', `${name} must be a number of bytes`);
  return bytes;
}

/**
 * Parses the length of an upload that begins, from `Upload-Length` and `Upload-Defer-Length`.
 * @returns null where it is to be told later
 * @throws invalid_request where there is neither header, or both; too_large
 */
export function parseLength(headers: Headers, maxBytes: number): number | null {
  const length = parseBytes('Upload-Length', headers.get('Upload-Length') ?? undefined);
  const deferred = headers.get('Upload-Defer-Length');
  if (deferred !== null && deferred !== '1')
    throw new SealpinError('invalid_request', 'Upload-Defer-Length can only be 1');
  if ((length === undefined) === (deferred === null))
    throw new SealpinError('invalid_request', 'one of Upload-Length and Upload-Defer-Length: 1 is needed');
  return length === undefined ? null : checkFileBytes(length, maxBytes);
}

/** @throws invalid_request for a part of a concatenation, which would be taken for a file */
export function checkExtensions(headers: Headers): void {
  if (headers.has('Upload-Concat'))
    throw new SealpinError('invalid_request', 'Upload-Concat: the bytes of a file are sent in order, not in parallel', {
      hint: 'set parallelUploads of the client to 1',
    });
}

/** @returns the length @throws too_large for more than the largest file */
export function checkFileBytes(length: number, maxBytes: number): number {
  if (length > maxBytes) throw new SealpinError('too_large', `a file may have at most ${maxBytes} bytes`);
  return length;
}

/**
 * Parses `Upload-Metadata`: `filename` or `name`, `filetype` or `type`, `cid`, `provisional`, and
 * details. Other keys are allowed, and ignored.
 * @param text the value of the header; empty without it
 * @throws invalid_request for anything but a list of base64
 */
export function parseMetadata(text: string) {
  if (text.length > maxMetadataChars)
    throw new SealpinError('invalid_request', `Upload-Metadata may have at most ${maxMetadataChars} characters`);
  const values = new Map<string, string>();
  for (const pair of text.trim() === '' ? [] : text.split(',')) {
    const [key = '', value = '', ...others] = pair.trim().split(' ');
    if (key === '' || others.length > 0 || values.has(key))
      throw new SealpinError(
        'invalid_request',
        'Upload-Metadata must be a list such as: filename bmFtZQ==,key dmFsdWU=',
      );
    values.set(key, decode(key, value));
  }
  const details = v.safeParse(UploadDetails, Object.fromEntries(values));
  if (!details.success) throw new SealpinError('invalid_request', invalidRequest('query', details.issues).message);
  return {
    filename: values.get('filename') ?? values.get('name') ?? null,
    // Browsers have no type for many files, and clients send what they have.
    contentType: (values.get('filetype') ?? values.get('type')) || null,
    cid: values.get('cid') ?? null,
    details: details.output,
    /** `true`: it is removed after a while, unless another upload names it. */
    provisional: values.get('provisional') ?? null,
  };
}

function decode(key: string, value: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Uint8Array.fromBase64(value));
  } catch (cause) {
    const name = JSON.stringify(key.slice(0, 40).toWellFormed());
    throw new SealpinError('invalid_request', `the value of ${name} in Upload-Metadata is not base64 of UTF-8`, {
      cause,
    });
  }
}
