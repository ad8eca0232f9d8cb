/** Tags by which a service finds files, and which it cannot read. */
import { hkdf } from '../providers/kdf.ts';
import { webProvider } from '../providers/web.ts';
import { hex, utf8 } from '../bytes.ts';
import { parsePkcs8 } from './der.ts';

/**
 * Replaces a tag where only equal ones must be found: its HMAC-SHA-256, in hex, under a key derived
 * from the account's private key (shared/README.md, "Tags").
 * @param pkcs8 the account's private key, in DER
 */
export function searchTag(pkcs8: Uint8Array, tag: string): string {
  const key = hkdf(webProvider, parsePkcs8(pkcs8).secret, new Uint8Array(0), 'sealpin/v1 tag');
  return hex(webProvider.hmac('sha256', key, utf8(tag)));
}
