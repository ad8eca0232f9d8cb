/**
 * Reading the inboxes of an account. The API key and the private key are here, in memory, and
 * nowhere else.
 */
import { accountOf } from '../../client/account-key.ts';
import { identitiesOf } from '../../client/credentials.ts';
import { concernsDelivery, isDelivery, openSealed, placeOf, readDelivery } from '../../client/inboxes.ts';
import { serviceHttp } from '../../client/service-http.ts';
import { FileList, type StoredFile } from '../../shared/api.ts';
import type { Identity } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import type { Parcel } from '../../shared/link/index.ts';
import type { DeliveryView, Receiving } from '../protocol.ts';

type Account = { readonly service: string; readonly apiKey: string };

/** Deliveries of one page of the list. */
const pageDeliveries = 10;
/** Files of the account that one request lists. */
const pageFiles = 100;

/** The inboxes of the account whose API key was given. */
export class InboxReader {
  #account: Account | undefined;
  #identities: readonly Identity[] = [];
  /** Parcels that the private key has opened, by their file IDs. */
  readonly #parcels = new Map<string, Parcel>();

  /** Takes an API key. @throws SealpinError `unauthorized` */
  async signIn(
    { root, apiKey }: Parameters<Receiving['signIn']>[0],
    signal: AbortSignal,
  ): Promise<ReturnType<Receiving['signIn']>> {
    const candidate = { service: root, apiKey: apiKey.trim() };
    const { key } = await accountOf(serviceHttp(candidate), signal);
    this.#account = candidate;
    return { scopes: key.scopes };
  }

  /** Takes the text of a private key file. @throws SealpinError `key_invalid` */
  unlock({ keys }: { keys: string }): void {
    this.#identities = identitiesOf({ keys });
    this.#parcels.clear();
  }

  /** Lists deliveries, newest first, with what the private key opens of them. */
  async deliveries(
    { cursor }: { cursor?: string | undefined },
    signal: AbortSignal,
  ): Promise<ReturnType<Receiving['deliveries']>> {
    const http = serviceHttp(this.#signedIn());
    const deliveries: DeliveryView[] = [];
    let next = cursor;
    do {
      const page = await http.json(FileList, { path: 'v1/storage', query: { limit: pageFiles, cursor: next }, signal });
      for (const file of page.files.filter(isDelivery)) deliveries.push(await this.#view(file, signal));
      next = page.cursor;
    } while (next !== undefined && deliveries.length < pageDeliveries);
    return { deliveries, cursor: next };
  }

  async #view(file: StoredFile, signal: AbortSignal): Promise<DeliveryView> {
    const about = { id: file.fileId, receivedAt: file.createdAt };
    try {
      const http = serviceHttp(this.#signedIn());
      const sealed = await readDelivery(http, file, signal);
      const parcel = await openSealed(sealed, this.#identities, placeOf(http, file));
      this.#parcels.set(file.fileId, parcel);
      return { ...about, from: parcel.from, files: parcel.files.map(({ name, size }) => ({ name, size })) };
    } catch (error) {
      if (signal.aborted || !concernsDelivery(error)) throw error;
      return {
        ...about,
        problem:
          error.reason === 'no_key' ? 'foreign' : isSealpinError(error, 'not_found', 'gone') ? 'absent' : 'other',
      };
    }
  }

  /** Returns a delivery of the list. */
  open({ id }: { id: string }): { parcel: Parcel; service: string } {
    const parcel = this.#parcels.get(id);
    if (parcel === undefined) throw new SealpinError('not_found');
    return { parcel, service: this.#signedIn().service };
  }

  #signedIn(): Account {
    if (this.#account === undefined) throw new SealpinError('unauthorized');
    return this.#account;
  }
}
