/** Reading the inboxes of an account. The private key is here, in memory, and nowhere else. */
import { identitiesOf } from '../../client/credentials.ts';
import { endlessList } from '../../client/attempts.ts';
import { concernsDelivery, isDelivery, openSealed, readDelivery } from '../../client/inboxes.ts';
import { serviceHttp, type ServiceHttp } from '../../client/service-http.ts';
import { FileList, type StoredFile } from '../../shared/api.ts';
import type { Identity } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { sealedParcelType, type Parcel } from '../../shared/link/index.ts';
import type { DeliveryView, Receiving } from '../protocol.ts';
import type { Handlers } from './serve-calls.ts';
import { signedIn } from './signed-in.ts';

/** Deliveries that one request lists, and that one page has at least, where there are so many. */
const pageDeliveries = 10;
/** What is asked for is only what can be a delivery: all of a page are opened. */
const query = { mode: 'plain', contentType: sealedParcelType, limit: pageDeliveries } as const;

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
    const look = endlessList();
    do {
      const page = await http.json(FileList, { path: 'v1/storage', query: { ...query, cursor: next }, signal });
      for (const file of page.files.filter(isDelivery)) deliveries.push(await view(http, file, signal));
      next = page.cursor;
      look(page.files.length, next);
    } while (next !== undefined && deliveries.length < pageDeliveries);
    return { deliveries, cursor: next };
  },
};

async function view(http: ServiceHttp, file: StoredFile, signal: AbortSignal): Promise<DeliveryView> {
  const about = { id: file.fileId, receivedAt: file.createdAt };
  const opened = async (): Promise<Parcel> =>
    openSealed(http, file, await readDelivery(http, file, signal), identities);
  try {
    const parcel = parcels.get(file.fileId) ?? (await opened());
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
