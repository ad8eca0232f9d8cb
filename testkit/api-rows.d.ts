import type { GenericSchema } from 'valibot';

/** Members of a row of the routes that clients need. */
export type ApiRow = {
  method: string;
  path: string;
  operationId?: string | undefined;
  who?: string;
  query?: { entries: Record<string, unknown> } | undefined;
  /** By media type. */
  body?: Record<string, unknown> | undefined;
  /** By status, then by media type; `null` where there is no body, or none with a shape. */
  responses: Record<number, Record<string, GenericSchema | null> | null>;
};

export const routes: readonly ApiRow[];

/** Returns the codes of problems that a route responds with. */
export function codesOf(row: ApiRow): readonly string[];
