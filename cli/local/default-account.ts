/** The account that the local service creates for its user at the first start. */
import { NewAccountResponse, parseResponse } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import { jsonOf } from '../io/json-text.ts';
import { writeState, type Secrets } from './state.ts';

/** The account in the secrets, or a new one, which is saved there. @throws service_answer */
export async function openAccount(url: string, dataDir: string, secrets: Secrets) {
  const { account, apiKey } = secrets;
  if (account !== undefined && apiKey !== undefined) return { account, apiKey };
  const response = await fetch(`${url}/v1/operator/accounts`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secrets.adminToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ label: 'local' }),
  });
  if (response.status !== 201)
    throw new SealpinError('service_answer', `the service created no account (status ${response.status})`);
  const { account: fresh, apiKey: key } = parseResponse(NewAccountResponse, await jsonOf(response));
  const created = { account: fresh.id, apiKey: key };
  await writeState(dataDir, 'secrets', { ...secrets, ...created });
  return created;
}
