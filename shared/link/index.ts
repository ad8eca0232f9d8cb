/** Passing files on (docs/links.md): links, parcels, and the records of shares. */
export { isShareId, parseLink, printLink, type Link } from './link.ts';
export {
  encodeParcel,
  maxParcelBytes,
  parcelType,
  parseParcel,
  sealedParcelType,
  type Parcel,
  type ParcelFile,
} from './parcel.ts';
export { maxRecordBytes, newShareId, openParcel, openParcelWith, sealParcel, sealParcelTo } from './share-record.ts';
