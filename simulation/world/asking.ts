/** Clients that try again by the published rules, and tell what they saw. */
import { isSealpinError } from '../../shared/errors.ts';
import { gateway, openFile, type GatewayFetch } from '../../shared/ipfs/index.ts';
import { pulled } from '../../shared/streams/pulled.ts';
import { readWholeBody } from '../platform/behaviour.ts';
import { Broken, origin } from '../platform/edge.ts';
import type { Answer, Sent } from '../platform/line.ts';
import { Violation, type Outcome } from './model.ts';
import type { SimulatedService } from './simulated-service.ts';

/** An outcome. `isCertain`: no attempt may have done more than this one tells. */
export type Told = Outcome & { answer: Answer | undefined; isCertain: boolean; attempts: number };

export type Request = Sent & {
  apiKey: string;
  json?: unknown;
  /** Set if another attempt does no harm. */
  isRepeatable: boolean;
};

const maxAttempts = 5;
const firstPauseMs = 1_000;
/** The longest that a request may take whose line holds, in ms: each wait has a limit. */
const patienceMs = 300_000;

/** The JSON of an answer; of one that did not come, or has no body, an empty object. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- what the caller takes it for
export function answerJson<T>(answer: Answer | undefined): T {
  const isWhole = answer?.isWhole === true && answer.bytes.length > 0;
  return JSON.parse(isWhole ? Buffer.from(answer.bytes).toString() : '{}') as T;
}

/** Sends a request, and again where the rules say so. */
export async function ask(service: SimulatedService, request: Request): Promise<Told> {
  const { apiKey, json, isRepeatable, ...sent } = request;
  const headers = {
    Authorization: `Bearer ${apiKey}`,
    ...(json !== undefined && { 'Content-Type': 'application/json' }),
    ...sent.headers,
  };
  const body = json === undefined ? sent.body : new TextEncoder().encode(JSON.stringify(json));
  let isCertain = true;
  for (let attempts = 1; ; attempts += 1) {
    const answer = await askOnce(service, { ...sent, headers, body });
    const status = answer?.status ?? 0;
    const isRefused = status >= 400 && status < 500;
    const code = status >= 400 ? answerJson<{ code?: string }>(answer).code : undefined;
    const isTemporary = status === 0 || [409, 423, 429, 503].includes(status);
    const told = { status, code, answer, isCertain: isCertain && (status === 200 || isRefused), attempts };
    if (status >= 200 && status < 300) return { ...told, isCertain: true };
    if (!isRefused) isCertain = false;
    if (!isTemporary || !isRepeatable || attempts === maxAttempts) return told;
    const pauseMs = Number(answer?.headers.get('Retry-After') ?? 0) * 1_000 || firstPauseMs * 2 ** attempts;
    if (pauseMs > 300_000) return told;
    await service.scheduler.sleep(pauseMs, 'pause');
  }
}

/**
 * Reads a file from the gateway by its CID.
 * @returns the outcome for its root, which is known as long as the file; and its bytes, if all are
 * proven
 */
export async function readCid(
  cid: string,
  get: (path: string, headers: Record<string, string>) => Promise<Told>,
): Promise<Outcome & { bytes: Uint8Array | undefined }> {
  const seen: Outcome[] = [];
  const fetch: GatewayFetch = async (url, { headers }) => {
    const told = await get(url.replace(origin, ''), headers);
    seen.push(told);
    if (told.answer === undefined) throw new TypeError('The line broke.');
    return { ...told.answer, body: answerBody(told.answer) };
  };
  const reading = openFile(cid, [gateway({ url: origin, fetch })]).then((file) => readWholeBody(file.read()));
  const bytes = await reading.catch((error: unknown) => {
    if (!isSealpinError(error)) throw error;
    return undefined;
  });
  const [{ status, code } = { status: 0, code: undefined }] = seen;
  return { status, code, bytes };
}

/** The body of an answer, which fails where that broke off. */
function answerBody({ bytes, isWhole }: Answer): ReadableStream<Uint8Array> {
  const pieces = [bytes];
  const next = async (): Promise<Uint8Array | undefined> => {
    if (pieces.length === 0 && !isWhole) throw new TypeError('terminated');
    return pieces.pop();
  };
  return pulled({ next, cancel: () => undefined });
}

/** Sends a request once. @returns undefined where the line broke */
async function askOnce({ scheduler, edge }: SimulatedService, sent: Sent): Promise<Answer | undefined> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const waits = (): void =>
    reject(new Violation(`${sent.method} ${sent.path.split('?')[0]} has no answer after ${patienceMs / 1_000} s`));
  const answered = scheduler.later(patienceMs, 'patience', waits);
  try {
    return await Promise.race([edge.fetch(sent), late]);
  } catch (error) {
    if (error instanceof Broken) return undefined;
    throw error;
  } finally {
    answered();
  }
}
