/** The options of a bucket behind an S3 API, in `BACKENDS`. */
import * as v from 'valibot';
import type { Adapter } from '../contract.ts';
import { objectStore } from '../objects/object-store.ts';
import { addressField, prefixField, unknownField } from '../option-fields.ts';
import { s3Bucket } from './s3.ts';

const textField = (field: string, form: RegExp) =>
  v.pipe(v.string(`${field} must be a string`), v.regex(form, `${field} must be ${form.source}`));

const S3BackendOptions = v.strictObject(
  {
    url: addressField('url', 'keySecret and secretSecret'),
    bucket: textField('bucket', /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$/),
    region: v.optional(textField('region', /^[a-zA-Z0-9-]{1,64}$/), 'us-east-1'),
    prefix: prefixField,
    keySecret: textField('keySecret', /^\w+$/),
    secretSecret: textField('secretSecret', /^\w+$/),
  },
  unknownField,
);

/**
 * An S3 API, configured by `{"url", "bucket", "region"?, "prefix"?, "keySecret", "secretSecret"}`.
 */
export const s3Adapter: Adapter<typeof S3BackendOptions> = {
  options: S3BackendOptions,
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
