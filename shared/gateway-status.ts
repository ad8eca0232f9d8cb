/**
 * Tells whether a proxy answers so for a server that is restarting, or whose connection broke: by
 * RFC 9110 (15.6.3 to 15.6.5), or by Cloudflare's own statuses (520 to 530), which `fetch` in a
 * deployed Worker gives for every server that is down.
 */
export function isFromGateway(status: number): boolean {
  return (status >= 502 && status <= 504) || (status >= 520 && status <= 530);
}
