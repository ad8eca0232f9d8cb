/**
 * IPFS as Sealpin uses it: the CID of a stream of bytes, CAR files, and reading from sources that nobody has to trust.
 * One layout only, the profile `unixfs-v1-2025` of IPIP-499: CIDv1, sha2-256, raw leaves of 1 MiB, 1,024 links, balanced.
 */
export { bytesOfCid, cidOf, leafBytes, parseCid, type Cid } from './cid.ts';
export { cidBuilder, type CidBuilder, type CidBuilderOptions, type Measure } from './builder.ts';
export { measured } from './hashing-stream.ts';
export { openFile, readBlock, type BlockSource, type IpfsFile, type Limits, type OpenOptions } from './file.ts';
export { carOf, fileFromCar, type CarOptions } from './car.ts';
export { gateway, type GatewayOptions } from './gateway.ts';
