/** Passing files on (docs/links.md): links, parcels, and the records of shares. */
export { isShareId, parseLink, printLink, type Link } from './link.ts';
export { encodeParcel, maxParcelBytes, parcelType, parseParcel, type Parcel, type ParcelFile } from './parcel.ts';
export { maxRecordBytes, newShareId, openParcel, sealParcel } from './share-record.ts';
