/** Ed25519 (RFC 8032), beside the curves of the formats: nothing that seals or opens needs it. */
export { ed25519 } from '@noble/curves/ed25519.js';
