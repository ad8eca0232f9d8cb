/**
 * Re-exports of noble's curves, a quarter of a small bundle: the pages that send load it when they
 * need it.
 */
export { x25519 } from '@noble/curves/ed25519.js';
export { p256 } from '@noble/curves/nist.js';
export { ml_kem768_p256, ml_kem768_x25519 } from '@noble/post-quantum/hybrid.js';
