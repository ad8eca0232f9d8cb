/** Passing files on (docs/links.md): links, parcels, and the records of shares. */
export { maxDetailsBytes, openFileDetails, sealFileDetails, type FileDetails } from './file-details.ts';
export { isShareId, parseLink, parseLinkOf, printLink, type Link } from './link.ts';
export { encodeParcel, parseParcel, sealedParcelType, type Parcel, type ParcelFile } from './parcel.ts';
export type { ParcelPlace, ParcelSignature, SignatureState, Signing } from './parcel-signature.ts';
export { maxRecordBytes, newShareId, openParcel, openParcelWith, sealParcel, sealParcelTo } from './share-record.ts';
