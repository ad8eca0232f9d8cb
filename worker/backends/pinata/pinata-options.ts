/** The options of a Pinata account in `BACKENDS`. */
import * as v from 'valibot';
import type { Adapter } from '../contract.ts';
import { addressField, authorized, headersField, secretField, unknownField } from '../option-fields.ts';
import { pinata } from './pinata.ts';

const addressOf = (field: string, usual: string) =>
  v.pipe(v.optional(v.unknown(), usual), addressField(field, 'tokenSecret'));

const PinataFields = v.strictObject(
  {
    url: addressOf('url', 'https://api.pinata.cloud/v3'),
    uploads: addressOf('uploads', 'https://uploads.pinata.cloud/v3'),
    tokenSecret: secretField('tokenSecret'),
    headers: headersField,
  },
  unknownField,
);

/** Pinata account, configured by `{"tokenSecret", "headers"?, "url"?, "uploads"?}`. */
export const pinataAdapter: Adapter<typeof PinataFields> = {
  options: PinataFields,
  triedAgainst: "tusd and a server made of Pinata's OpenAPI documents; not Pinata itself",
  places: ({ url, tokenSecret = '' }) => [`${url} ${tokenSecret}`],
  make({ url, uploads, tokenSecret, headers }, context) {
    const { id, pinName, fetch } = context;
    if (tokenSecret === undefined) throw context.misconfigured('tokenSecret must be the name of a secret');
    return pinata({ id, url, uploads, headers: authorized(headers, tokenSecret, context), pinName, fetch });
  },
};
