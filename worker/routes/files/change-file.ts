/**
 * `PATCH /v1/storage/:fileId`: what a file is called, and what else is known of it. Its bytes never
 * change.
 */
import { FileChange, type StoredFile } from '../../../shared/api.ts';
import { searchTag, sniff } from '../../../shared/crypto/index.ts';
import { SealpinError, isSealpinError } from '../../../shared/errors.ts';
import { parseFilename } from '../../../shared/filename.ts';
import { maxDetailsBytes } from '../../../shared/link/index.ts';
import { identitiesOf, privateKeyOf, type Principal } from '../../auth/authenticate.ts';
import { parseFileId, type Ctx } from '../../http/app.ts';
import { readJson } from '../../http/json-body.ts';
import { parseFutureTime } from '../../http/validation.ts';
import type { FileRecord } from '../../objects/account/files/file-rows.ts';
import type { KeyMaterial } from '../../objects/account/keys/key-rows.ts';
import { unwrap } from '../../objects/result.ts';
import { askPins } from './file-backends.ts';
import { aboutPlain, checkFileConditions, etagOf, openRecord, storedFile, type About } from './file-view.ts';

/** Number of attempts at a change that another change precedes. */
const attempts = 3;

/** Changes a file. What the body does not name stays, null removes. */
export async function changeFile(c: Ctx, principal: Principal): Promise<Response> {
  const { account, key } = principal;
  const fileId = parseFileId(c);
  const { canRead } = await unwrap(account.files.changer(key.hash, fileId));
  const change = await readJson(c.req.raw, FileChange);
  if (!canRead) return await nameFile(c, principal, fileId, change);
  return await untilUnchanged(async () => {
    const found = await unwrap(account.files.find(key.hash, fileId, { sealed: true }));
    const { file } = found;
    const pins = await askPins(c.env, file);
    checkFileConditions(c, file, pins);
    const { update, about } = await updateOf(principal, found, change);
    const changed = await unwrap(account.files.change(key.hash, fileId, update));
    const body: StoredFile = storedFile(changed.file, about, pins);
    return c.json(body, 200, { ETag: etagOf(changed.file, 'file', pins) });
  });
}

/** Sets the details of a file, as a key that stored it and reads nothing. */
async function nameFile(c: Ctx, { account, key }: Principal, fileId: string, { details, ...others }: FileChange) {
  if (Object.values(others).some((each) => each !== undefined))
    throw new SealpinError('insufficient_scope', 'this needs a key with the scope read');
  return await untilUnchanged(async () => {
    const { file } = await unwrap(account.files.changer(key.hash, fileId));
    if (file === undefined) throw new SealpinError('not_found');
    const pins = await askPins(c.env, file);
    checkFileConditions(c, file, pins);
    const { version, rewrapped } = file;
    const update = { version, rewrapped, details: parseDetails(file, details) };
    const changed = (await unwrap(account.files.change(key.hash, fileId, update))).file;
    const { size, contentType } = aboutPlain(changed);
    const body = storedFile({ ...changed, details: null }, { filename: undefined, size, contentType }, pins);
    return c.json(body, 200, { ETag: etagOf(changed, 'file', pins) });
  });
}

/**
 * Details as rows have them; undefined for no change.
 * @throws invalid_request for what is no container, is too large, or belongs to a file whose name
 * is in its header
 */
function parseDetails({ mode }: FileRecord, text: string | null | undefined): Uint8Array | null | undefined {
  if (text === undefined || text === null) return text;
  const details = Uint8Array.fromBase64(text);
  if (mode === 'encrypted')
    throw new SealpinError('invalid_request', 'a file in encrypted mode has its name in its header, and no details');
  if (details.length > maxDetailsBytes || sniff(details) !== 'sealpin')
    throw new SealpinError(
      'invalid_request',
      `details must be a sealpin/v1 container of at most ${maxDetailsBytes} bytes`,
    );
  return details;
}

/** Makes a change of a version of a file, again where another change came before. */
export async function untilUnchanged<T>(change: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await change();
    } catch (error) {
      if (attempt === attempts || !isSealpinError(error, 'conflict')) throw error;
    }
  }
}

async function updateOf(principal: Principal, found: KeyMaterial & { file: FileRecord }, asked: FileChange) {
  const { expiresAt, details, ...change } = asked;
  const { file } = found;
  const isPlain = file.mode === 'plain';
  const opened = isPlain ? undefined : await openRecord(file, await identitiesOf(principal, found));
  const about = changedAbout(opened?.file ?? aboutPlain(file), change);
  if (!isPlain && about.filename === null)
    throw new SealpinError('invalid_filename', 'a file in encrypted mode must have a name');
  const isSame = Object.values(change).every((value) => value === undefined);
  const pkcs8 = change.tags === undefined ? undefined : await privateKeyOf(principal, found);
  return {
    about,
    update: {
      version: file.version,
      rewrapped: file.rewrapped,
      header: isSame ? undefined : await opened?.describe(file.fileId, about),
      plain: isPlain && !isSame ? about : undefined,
      details: parseDetails(file, details),
      expiresAt: typeof expiresAt === 'string' ? parseFutureTime(expiresAt, Date.now()) : expiresAt,
      tags: pkcs8 && (about.tags ?? []).map((tag) => searchTag(pkcs8, tag)),
      spki: found.spki,
    },
  };
}

/** Applies a change to the description of a file; an empty list or map is left out. */
function changedAbout(
  before: About,
  { filename, contentType, metadata, tags }: Omit<FileChange, 'expiresAt' | 'details'>,
): About {
  const { metadata: oldMetadata, tags: oldTags, ...rest } = before;
  const pairs = metadata === undefined ? oldMetadata : (metadata ?? {});
  const texts = tags === undefined ? oldTags : [...new Set(tags ?? [])];
  return {
    ...rest,
    ...(filename === undefined ? {} : { filename: filename === null ? null : parseFilename(filename) }),
    ...(contentType === undefined ? {} : { contentType }),
    ...(pairs === undefined || Object.keys(pairs).length === 0 ? {} : { metadata: pairs }),
    ...(texts === undefined || texts.length === 0 ? {} : { tags: texts }),
  };
}
