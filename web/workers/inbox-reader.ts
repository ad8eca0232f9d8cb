/** Reading the inboxes of an account. The private key is here, in memory, and nowhere else. */
import { identitiesOf } from '../../client/credentials.ts';
import { concernsDelivery, isDelivery, openSealed, placeOf, readDelivery } from '../../client/inboxes.ts';
import { serviceHttp } from '../../client/service-http.ts';
import { FileList, type StoredFile } from '../../shared/api.ts';
import type { Identity } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import type { Parcel } from '../../shared/link/index.ts';
import type { DeliveryView, Receiving } from '../protocol.ts';
import type { Handlers } from './serve-calls.ts';
import { signedIn } from './signed-in.ts';

/** Deliveries of one page of the list. */
const pageDeliveries = 10;
/** Files of the account that one request lists. */
const pageFiles = 100;

let identities: readonly Identity[] = [];
/** Parcels that the private key has opened, by their file IDs. */
const parcels = new Map<string, Parcel>();

export const inboxCalls: Pick<Handlers<Receiving>, 'unlock' | 'deliveries'> = {
  async unlock({ keys }) {
    identities = identitiesOf({ keys });
    parcels.clear();
  },
  /** Newest first, with what the private key opens of them. */
  async deliveries({ cursor }, { signal }) {
    const http = serviceHttp(signedIn());
    const deliveries: DeliveryView[] = [];
    let next = cursor;
    do {
      const page = await http.json(FileList, { path: 'v1/storage', query: { limit: pageFiles, cursor: next }, signal });
      for (const file of page.files.filter(isDelivery)) deliveries.push(await view(file, signal));
      next = page.cursor;
    } while (next !== undefined && deliveries.length < pageDeliveries);
    return { deliveries, cursor: next };
  },
};

async function view(file: StoredFile, signal: AbortSignal): Promise<DeliveryView> {
  const about = { id: file.fileId, receivedAt: file.createdAt };
  try {
    const http = serviceHttp(signedIn());
    const sealed = await readDelivery(http, file, signal);
    const parcel = await openSealed(sealed, identities, placeOf(http, file));
    parcels.set(file.fileId, parcel);
    return { ...about, from: parcel.from, files: parcel.files.map(({ name, size }) => ({ name, size })) };
  } catch (error) {
    if (signal.aborted || !concernsDelivery(error)) throw error;
    return {
      ...about,
      problem: error.reason === 'no_key' ? 'foreign' : isSealpinError(error, 'not_found', 'gone') ? 'absent' : 'other',
    };
  }
}

/** Returns a delivery of the list. */
export function listedDelivery(id: string): { parcel: Parcel; service: string } {
  const parcel = parcels.get(id);
  if (parcel === undefined) throw new SealpinError('not_found');
  return { parcel, service: signedIn().service };
}
