/**
 * The SDK: sealing and opening files, blobs on IPFS, links, and a service. All of it works on
 * `fetch` and web streams, in browsers, Node, workerd and other runtimes that have them. Failures
 * are `SealpinError`s with a code; an aborted signal's reason is thrown as it is.
 */
export { cidOf, fetchBlob, type Range } from './blobs.ts';
export { connect, type Connection, type ListOptions, type ServedFile } from './connection.ts';
export { generateKeys, inspect, open, seal, type Inspection, type Keys, type Sealed } from './containers.ts';
export type { Credentials, To, With } from './credentials.ts';
export { connectAsGuest, type CreatedInvitation, type Guest, type Invitations } from './invitations.ts';
export { handOver, type CreatedInbox, type Delivery, type Inboxes } from './inboxes.ts';
export type { PutOptions } from './put.ts';
export { receive, type AskedPassword, type Received, type ReceivedFile, type ReceiveOptions } from './receiving.ts';
export type { UploadedFile } from './resumable-upload.ts';
export type { RotatedAccount, RotationOptions } from './account-rotation.ts';
export type { Outgoing, SendingOptions, SentFile, Words } from './sending.ts';
export type { Sent, ShareChanges, Shared, ShareOptions } from './sharing.ts';
export type { Shareable } from './stored-files.ts';
export type { Fetch } from './service-http.ts';
export { signUrl, type SignedDownload, type SignedUpload } from './sign-url.ts';
export type { Content, Source, StoredSource } from './web-bytes.ts';
export type { AccountEvent, ApiKeyRecord, FileList, Receipt, Revoked, StoredFile } from '../shared/api.ts';
export type { Share, ShareList, ShareReceipt } from '../shared/api.ts';
export { isSealpinError, SealpinError, type Code, type Reason } from '../shared/errors.ts';
