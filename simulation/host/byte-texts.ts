/**
 * Bytes as text, which Workers and newer versions of Node have. (Behind the flag of V8 that adds
 * them to Node 24, `toHex` of a part of a buffer gives other bytes.)
 */
type Base64Options = { alphabet?: 'base64' | 'base64url'; omitPadding?: boolean };

/** Adds the methods where the runtime lacks them. */
export function addByteTexts(): void {
  if ('toHex' in Uint8Array.prototype) return;
  const of = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const methods = {
    toHex(this: Uint8Array) {
      return of(this).toString('hex');
    },
    toBase64(this: Uint8Array, { alphabet = 'base64', omitPadding = false }: Base64Options = {}) {
      const text = of(this).toString('base64');
      const other = alphabet === 'base64' ? text : text.replaceAll('+', '-').replaceAll('/', '_');
      return omitPadding ? other.replace(/=+$/, '') : other;
    },
  };
  const statics = {
    fromHex(text: string) {
      if (!/^([0-9A-Fa-f]{2})*$/.test(text)) throw new SyntaxError('this is not hexadecimal');
      return new Uint8Array(Buffer.from(text, 'hex'));
    },
    fromBase64(text: string, { alphabet = 'base64' }: Base64Options = {}) {
      const pattern = alphabet === 'base64' ? /^[\sA-Za-z0-9+/]*={0,2}\s*$/ : /^[\sA-Za-z0-9_-]*={0,2}\s*$/;
      if (!pattern.test(text)) throw new SyntaxError('this is not base64');
      return new Uint8Array(Buffer.from(text, 'base64'));
    },
  };
  // oxlint-disable-next-line no-extend-native -- as newer versions have it
  for (const [name, value] of Object.entries(methods)) Object.defineProperty(Uint8Array.prototype, name, { value });
  for (const [name, value] of Object.entries(statics)) Object.defineProperty(Uint8Array, name, { value });
}
