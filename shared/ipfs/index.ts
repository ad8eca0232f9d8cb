/**
 * IPFS as Sealpin uses it: the CID of a stream of bytes, CAR files, and reading from sources that
 * are not trusted. There is one layout, the profile `unixfs-v1-2025` (`profile.ts`).
 *
 * To read a file, give `openFile` its CID and its sources, in order of preference. `gateway` is a
 * source, `fileFromCar` reads a CAR file that is at hand, and a `BlockSource` of your own can be
 * anything that has blocks: all of it is verified.
 */
export { canonicalCid } from './spellings.ts';
export { addOptions, leafBytes, linksPerNode, maxBlockBytes } from './profile.ts';
export { bytesOfCid, cidFromBytes, cidFromV0, cidOf, digestOfBytes, isCid, parseCid, type Cid } from './cid.ts';
export { continuedPartMs, mostPartLeaves, partLeaves, partMs } from './parts.ts';
export { cidBuilder, type CidBuilder, type CidBuilderOptions, type SizedCid } from './builder.ts';
export { digestBytes, sha256, treeOf, type Digest } from './tree.ts';
export { decodeNode, encodeNode, linksOf, type Link } from './unixfs.ts';
export { maxLevels } from './walk.ts';
export { carReader, type CarBlock } from './car-reader.ts';
export { type BlockSource } from './block-source.ts';
export { hashingStream } from './hashing-stream.ts';
export { blocksOf, openFile, readBlock, type IpfsFile, type ReadingLimits, type OpenOptions } from './file.ts';
export { carBytesOf, carOfBytes } from './car-writer.ts';
export { carHeader, carLength, carOf, carSection, carType, fileFromCar, rootsOf, type CarOptions } from './car.ts';
export { gateway, type GatewayFetch, type GatewayOptions } from './gateway.ts';
export type { GatewayProblem, GatewayResponse } from './gateway.ts';
