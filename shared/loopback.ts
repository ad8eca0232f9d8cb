/**
 * The names of loopback in a URL, besides the rest of 127.0.0.0/8 (RFC 6761 section 6.3, RFC 1122
 * section 3.2.1.3).
 */
export const loopbackNames = ['127.0.0.1', 'localhost', '[::1]'] as const;

/** Checks whether a URL points to this machine. */
export function isLoopback({ hostname }: URL): boolean {
  return loopbackNames.some((name) => name === hostname) || /^127(?:\.\d{1,3}){3}$/.test(hostname);
}
