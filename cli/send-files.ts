/** Sending files by link: each is sealed under a key of its own and stored, and a share has the keys. */
import { stat } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { sealAndStore, removeAll, type Store } from '../client/sending.ts';
import { shareParcel, type Shared } from '../client/sharing.ts';
import { partBytes, uploadStream } from '../client/upload-in-parts.ts';
import { detachedPayloadBytes } from '../shared/crypto/index.ts';
import { SealpinError } from '../shared/errors.ts';
import type { Parcel } from '../shared/link/index.ts';
import type { Context } from './context.ts';
import type { Input } from './io/input.ts';
import { nodeBackend } from './keys/node-backend.ts';
import { type Api, api, authorizedService, introduction } from './remote/client.ts';
import type { Service } from './remote/service-choice.ts';
import { sdkHttp } from './remote/sdk.ts';
import { store } from './remote/store-blob.ts';
import { keepInHistory, limitsOf, openSource, refuseLarge } from './seal.ts';
import type { ShareTerms } from './share-terms.ts';

/**
 * Sends files and folders.
 *
 * @param paths `-` is standard input
 * @param o.name what the receiver gets standard input as
 * @param terms asked for once the service is known to be there
 * @returns the share, and how many bytes of plaintext it has
 * @throws too_large, insufficient_scope, parcel_invalid, the codes of `openInput`, `authorizedService`, and of the SDK's `send`
 */
export async function sendFiles(
  paths: readonly string[],
  o: { readonly name: string | undefined },
  terms: () => Promise<ShareTerms>,
  context: Context,
): Promise<Shared & { readonly service: Service; readonly bytes: number }> {
  const service = await authorizedService(context);
  const routes = api(service, context);
  const { health, key } = await introduction(routes);
  const limits = limitsOf(health);
  refuseKey(key.scopes);
  const inputs: Input[] = [];
  try {
    const files = [];
    for (const path of paths) {
      const input = await openSource(path, context);
      inputs.push(input);
      const size = input.bytes;
      refuseLarge(size === undefined ? undefined : detachedPayloadBytes(size), limits.fileBytes);
      files.push({ source: input.stream, size, name: await nameOf(path, o.name, context.cwd) });
    }
    const agreed = await terms();
    const stored = await storeAll(files, { service, routes, agreed, context });
    const remove = (fileId: string) => routes.remove(fileId);
    try {
      const about = { parcel: stored.parcel, files: stored.files.map(({ fileId }) => fileId) };
      const shared = await makeShare(about, agreed, service, context);
      for (const { cid, fileId, name, size } of stored.files)
        await keepInHistory(
          { cid, fileId, service: service.url.href, bytes: detachedPayloadBytes(size), name },
          context,
        );
      return { ...shared, service, bytes: stored.files.reduce((sum, { size }) => sum + size, 0) };
    } catch (error) {
      await removeAll(stored.files, remove);
      throw error;
    }
  } finally {
    for (const input of inputs) await input.close();
  }
}

/** Has the service keep a parcel. Fails as `shareParcel`. */
export async function makeShare(
  about: { readonly parcel: Parcel; readonly files: readonly string[] },
  { recipients, ...terms }: ShareTerms,
  service: Service,
  context: Context,
): Promise<Shared> {
  const { output, scryptLogN, signal } = context;
  const derivation = terms.password === undefined ? undefined : output.progress('deriving the key from the password');
  const sealing = { recipients, kdf: { name: 'scrypt', logN: scryptLogN }, backend: nodeBackend } as const;
  const shared = await shareParcel(sdkHttp(service, context), about, { ...terms, signal }, sealing);
  derivation?.done();
  return shared;
}

/** A service that refuses the share would have stored everything for nothing. */
function refuseKey(scopes: readonly string[]): void {
  const missing = (['write', 'share'] as const).find((scope) => !scopes.includes(scope));
  if (missing !== undefined)
    throw new SealpinError(
      'insufficient_scope',
      `the API key may not ${missing === 'write' ? 'store files' : 'share'}`,
      {
        hint: `use a key with the scopes write and share, such as: sealpin key create <label> --scopes write,share`,
      },
    );
}

/** What the receiver gets a file as. */
async function nameOf(path: string, given: string | undefined, cwd: string): Promise<string> {
  if (path === '-') return given ?? 'standard-input';
  const absolute = resolve(cwd, path);
  const isFolder = (await stat(absolute)).isDirectory();
  return isFolder ? `${basename(absolute)}.tar` : basename(absolute);
}

async function storeAll(
  files: Exclude<Parameters<typeof sealAndStore>[0], readonly unknown[] | File>[],
  o: { service: Service; routes: Api; agreed: ShareTerms; context: Context },
): ReturnType<typeof sealAndStore> {
  const { service, routes, agreed, context } = o;
  const { output, signal } = context;
  const total = files.reduce(
    (sum, { size }) => sum + (size === undefined ? Number.NaN : detachedPayloadBytes(size)),
    0,
  );
  const progress = output.progress('encrypting and sending', Number.isNaN(total) ? undefined : total);
  let shown = 0;
  const http = sdkHttp(service, context);
  const toService: Store = async (payload, { bytes, onProgress }) => {
    // Within this machine nothing breaks; elsewhere a part that does is sent again.
    if (!service.local && bytes !== undefined && bytes > partBytes)
      return uploadStream(http, payload, bytes, { signal, onProgress });
    let sent = 0;
    const onBytes = (more: number): void => onProgress((sent += more));
    return store({ stream: payload, bytes }, { api: routes, context, onBytes });
  };
  try {
    return await sealAndStore(files, {
      note: agreed.note,
      from: agreed.from,
      signal,
      store: toService,
      remove: (fileId) => routes.remove(fileId),
      backend: nodeBackend,
      onProgress(bytes) {
        progress.add(bytes - shown);
        shown = bytes;
      },
    });
  } finally {
    progress.done();
  }
}
