/** The options of a bucket behind an S3 API, in `BACKENDS`. */
import * as v from 'valibot';
import type { Adapter } from '../contract.ts';
import { objectStore } from '../objects/object-store.ts';
import { addressField, prefixField, unknownField } from '../option-fields.ts';
import { s3Bucket } from './s3.ts';

const text = (field: string, form: RegExp) =>
  v.pipe(v.string(`${field} must be a string`), v.regex(form, `${field} must be ${form.source}`));

const Options = v.strictObject(
  {
    url: addressField('url', 'keySecret and secretSecret'),
    bucket: text('bucket', /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$/),
    region: v.optional(text('region', /^[a-zA-Z0-9-]{1,64}$/), 'us-east-1'),
    prefix: prefixField,
    keySecret: text('keySecret', /^\w+$/),
    secretSecret: text('secretSecret', /^\w+$/),
  },
  unknownField,
);

/**
 * An S3 API, configured by `{"url", "bucket", "region"?, "prefix"?, "keySecret", "secretSecret"}`.
 */
export const s3Adapter: Adapter<typeof Options> = {
  options: Options,
  triedAgainst: 'versitygw 1.8.0, and Ceph 16.2.15 while its disks and its gateway are killed; no hosted service',
  make({ keySecret, secretSecret, prefix, ...where }, { id, serviceId, secretOf, fetch, misconfigured }) {
    const secret = (name: string): string => {
      const value = secretOf(name);
      if (value === undefined || value === '') throw misconfigured(`the secret ${name} is not set`);
      return value;
    };
    const credentials = { accessKeyId: secret(keySecret), secretAccessKey: secret(secretSecret) };
    const bucket = s3Bucket({ id, fetch, ...where, ...credentials });
    return objectStore({ id, serviceId, prefix, bucket });
  },
};
