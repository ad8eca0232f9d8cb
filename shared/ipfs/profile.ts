/**
 * The profile `unixfs-v1-2025` (IPIP-499, https://specs.ipfs.tech/ipips/ipip-0499/), the only
 * layout of files that Sealpin writes: CIDv1, sha2-256, raw leaves of 1 MiB, 1,024 links a node, a
 * balanced tree.
 */

/** Bytes of a leaf; the last one of a file may be shorter. */
export const leafBytes = 1_048_576;

/** Links of a full interior node. */
export const linksPerNode = 1024;

/**
 * The largest block that any source may give: 2 MiB (trustless gateway specification, section 6.2).
 */
export const maxBlockBytes = 2_097_152;

/**
 * Options of Kubo's `add` that make its CID the one of the profile, whatever the settings of the
 * node are.
 */
export const addOptions = {
  'cid-version': '1',
  'raw-leaves': 'true',
  chunker: `size-${leafBytes}`,
  'max-file-links': String(linksPerNode),
  hash: 'sha2-256',
  trickle: 'false',
} as const;
