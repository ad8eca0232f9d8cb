/** `sealpin verify --all` and `--local`: all that an account, or the local IPFS node, holds. */
import { type StoredFile, Verification } from '../../shared/api.ts';
import { type Code, exitOf, isSealpinError, SealpinError } from '../../shared/errors.ts';
import { cidBuilder } from '../../shared/ipfs/index.ts';
import { sleep } from '../../shared/streams/timing.ts';
import type { Context } from '../context.ts';
import { control } from '../local/control.ts';
import { maxNamedBlocks, type VerifiedBlocks } from '../local/node/verify-blocks.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { api, authorizedService, requester, type ApiCaller } from '../remote/client.ts';
import { filePages } from '../remote/pages.ts';
import { countText, sizeText } from '../terminal/size.ts';
import { withBlob } from '../fetch/fetch-blob.ts';
import { storedBytes } from '../fetch/own-files.ts';

/** The state of a file. `isTold`: only the service itself has compared it. */
type FileState = { readonly size: number; readonly isTold?: boolean } | { readonly code: Code; readonly why: string };

/** Errors that may be gone the next time: they do not say that bytes are missing or wrong. */
const passing: readonly unknown[] = ['service_unreachable', 'pinning_unavailable', 'rate_limited'];
/** Wait before a file is asked for again, in ms, where the service names none. */
const againMs = 1_000;
/** Of the failures of several files, this one matters most. */
const damagedExit = exitOf({ code: 'content_mismatch' });
/** The most questions whether the service has read a file, a second apart. */
const mostAsks = 3_600;
/** Files in a row that nobody could give, after which it is not the files that are to blame. */
const unreadInRow = 5;

/**
 * Verifies every file of the account.
 * @param after where an earlier run has stopped
 * @returns the exit code
 */
export async function verifyAccount(after: string | undefined, context: Context): Promise<number> {
  const { output } = context;
  const service = await authorizedService(context);
  const known = new Map<string, FileState>();
  const bad: { fileId: string; blobId: string; code: Code; why: string }[] = [];
  const so = { files: 0, bytes: 0, told: 0, next: after, unread: 0 };
  const report = (next?: string) =>
    output.result({ files: so.files, size: so.bytes, ...(so.told > 0 && { told: so.told }), bad, next }, []);

  async function add(file: FileToVerify): Promise<void> {
    const { fileId, cid } = file;
    const found = known.get(cid) ?? (await readWithRetries(file, service, context));
    if (!known.has(cid) && 'size' in found) so.bytes += found.size;
    known.set(cid, found);
    const isRead = 'size' in found;
    so.unread = isRead || !passing.includes(found.code) ? 0 : so.unread + 1;
    // Where the service is away, it has no list, either.
    if (so.unread === 1) await api(service, context).list({ limit: 1 });
    so.files += 1;
    if (isRead) {
      if (found.isTold === true) so.told += 1;
      return;
    }
    bad.push({ fileId, blobId: cid, ...found });
    if (!output.json) output.warn(`${fileId} (${cid}): ${found.why}`);
    if (so.unread === unreadInRow)
      throw new SealpinError('service_unreachable', `${unreadInRow} files in a row could not be read`, {
        hint: 'see: sealpin status',
      });
  }

  try {
    for await (const { items, cursor } of filePages(service, context, { cursor: after })) {
      for (const file of items) await add(file);
      so.next = cursor;
    }
  } catch (error) {
    if (after !== undefined && so.next === after && isSealpinError(error, 'invalid_request'))
      throw noPosition('--all', error);
    stopped(`${countText(so.files, 'file')} were read`, so.next, '--all', context);
    await report(so.next);
    throw error;
  }
  if (bad.length === 0)
    output.note(`all blocks of ${countText(so.files, 'file')} are present and intact (${sizeText(so.bytes)})`);
  else output.note(`${bad.length} of ${countText(so.files, 'file')} cannot be read whole`);
  if (so.told > 0)
    output.note(
      `${countText(so.told, 'file')} only the service itself has compared: of another layout, which it gives to ` +
        'nobody (PUBLIC_GATEWAY is off)',
    );
  await report();
  const exits = bad.map(({ code }) => exitOf({ code }));
  return exits.includes(damagedExit) ? damagedExit : (exits[0] ?? 0);
}

/** The error of an `--after` that no run has named. */
export function noPosition(flag: '--all' | '--local', cause?: SealpinError): SealpinError {
  return new SealpinError('usage', `--after is no position that verify ${flag} has named`, {
    hint: `give the one that a stopped run named, or leave it out: sealpin verify ${flag}`,
    cause,
  });
}

/** Says how far a run came that did not come to its end. */
function stopped(text: string, next: string | undefined, flag: string, { output }: Context): void {
  const position = next === undefined ? '' : ` --after ${next}`;
  output.note(`${text}; the rest: sealpin verify ${flag}${position}`);
}

type FileToVerify = Readonly<Pick<StoredFile, 'fileId' | 'cid' | 'mode' | 'size'>>;

/** Reads a blob, again where the service asks to wait or did not give it the first time. */
async function readWithRetries(file: FileToVerify, service: ApiCaller, context: Context): Promise<FileState> {
  for (let left = 1; ;) {
    try {
      const reading = withBlob(file.cid, context, async ({ size, read: blocks }) => {
        for await (const _block of blocks(0, size));
        return { size };
      });
      return await reading.catch((error: unknown) => {
        if (!isSealpinError(error, 'not_found')) throw error;
        return withKey(file, service, context, error);
      });
    } catch (error) {
      context.signal.throwIfAborted();
      if (!isSealpinError(error)) throw error;
      // Who asks for fewer requests has them all answered in the end.
      if (error.code !== 'rate_limited') left -= 1;
      if (!passing.includes(error.code) || left < 0) return { code: error.code, why: error.message };
      const { retryAfterSeconds } = error;
      await sleep(retryAfterSeconds === undefined ? againMs : retryAfterSeconds * 1000, context.signal);
    }
  }
}

/** Reads, with the API key, a file that nobody else gets. @param absent thrown where it is gone */
async function withKey(file: FileToVerify, service: ApiCaller, context: Context, absent: SealpinError) {
  const builder = cidBuilder({ digest: nodeProvider.sha256 });
  for await (const chunk of await storedBytes(file, 0, service, context)) await builder.write(chunk);
  const { cid, bytes } = await builder.finish();
  return cid === file.cid ? { size: bytes } : await told(file, service, context, absent);
}

/** Has the service compare a file whose layout only it knows. @param absent as for `withKey` */
async function told({ fileId }: FileToVerify, service: ApiCaller, context: Context, absent: SealpinError) {
  for (let asks = 0; asks < mostAsks; asks += 1) {
    const asked = requester(service, context)(Verification, `v1/storage/${fileId}/verification`, 'POST');
    const { done, pins } = await asked.catch((error: unknown) => {
      throw isSealpinError(error) && passing.includes(error.code) ? error : absent;
    });
    if (done && pins.some(({ status }) => status === 'pinned')) return { size: 0, isTold: true };
    if (done) throw absent;
    await sleep(againMs, context.signal);
  }
  throw new SealpinError('pinning_unavailable', 'the service has not read it within an hour');
}

/**
 * Verifies every block of the IPFS node of the local service, which must run.
 * @param after where an earlier run has stopped
 * @returns the exit code
 */
export async function verifyLocal(after: string | undefined, context: Context): Promise<number> {
  const { output, signal } = context;
  const all: Omit<VerifiedBlocks, 'next'> = { blocks: 0, bytes: 0, bad: 0, first: [] };
  let next = after;
  const report = () => {
    const { blocks, bytes: size, bad, first } = all;
    return output.result({ blocks, size, bad, first, next }, []);
  };
  const readOn = async () => {
    try {
      signal.throwIfAborted();
      return await control(context, 'verify', { body: { position: next } });
    } catch (error) {
      // A service that does not run has nothing to continue.
      if (next === after && !signal.aborted) throw error;
      stopped(`${countText(all.blocks + all.bad, 'block')} were read`, next, '--local', context);
      await report();
      throw error;
    }
  };
  do {
    const found = await readOn();
    all.blocks += found.blocks;
    all.bytes += found.bytes;
    all.bad += found.bad;
    const named = found.first.slice(0, Math.max(0, maxNamedBlocks - all.first.length));
    all.first.push(...named);
    if (!output.json) for (const { cid, file, why } of named) output.warn(`${cid} is ${why} (in ${file})`);
    ({ next } = found);
  } while (next !== undefined);
  const { blocks, bytes, bad } = all;
  if (bad === 0)
    output.note(
      `${countText(blocks, 'block')} of the IPFS node ${blocks === 1 ? 'is' : 'are'} present and ` +
        `intact (${sizeText(bytes)})`,
    );
  else
    output.note(
      `${bad} of ${countText(blocks + bad, 'block')} of the IPFS node ${bad === 1 ? 'is' : 'are'} missing or damaged`,
    );
  await report();
  return bad === 0 ? 0 : damagedExit;
}
