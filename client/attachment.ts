/**
 * The value of `Content-Disposition` for a file to be saved (RFC 6266), with its name in the
 * encoding of RFC 8187.
 */
export function attachment(name: string): string {
  const encoded = encodeURIComponent(name).replace(/['()*]/g, (each) => `%${each.charCodeAt(0).toString(16)}`);
  return `attachment; filename*=UTF-8''${encoded}`;
}
