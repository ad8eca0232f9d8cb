/** The proxies that may connect to the listener of a public service: addresses and subnets. */
import { BlockList, isIP, isIPv6 } from 'node:net';
import { SealpinError } from '../../../shared/errors.ts';

/** Proxies that may connect to the listener, and the address on which it therefore listens. */
export type Proxies = {
  /** As they were given. */
  readonly names: readonly string[];
  /** Addresses to listen on; undefined: all of this machine. */
  readonly hosts: readonly string[] | undefined;
  has(address: string | undefined): boolean;
};

const loopback = ['127.0.0.1', '::1'];

/** An address without what only this machine puts around it: `::ffff:` and the zone. */
export function plainAddress(address: string): string {
  const [bare = ''] = address.split('%');
  const mapped = /^::ffff:([0-9.]+)$/i.exec(bare)?.[1];
  return mapped ?? bare;
}

/** Parses `--proxy`: addresses and CIDR blocks; by default this machine. @throws usage */
export function parseProxies(text: string | undefined): Proxies {
  const names = text?.split(',').map((name) => name.trim()) ?? loopback;
  const list = new BlockList();
  for (const name of names) {
    const [address = '', prefix, ...more] = name.split('/');
    const bits = isIPv6(address) ? 128 : 32;
    const length = prefix === undefined ? bits : Number(prefix);
    // A block of no bits is everybody, whose word on an address counts for nothing.
    const isBlock = /^[1-9][0-9]{0,2}$/.test(prefix ?? '1') && length <= bits && more.length === 0;
    if (isIP(address) === 0 || address.includes('%') || !isBlock)
      throw new SealpinError('usage', `--proxy ${name} is neither an address nor a CIDR block`, {
        hint: 'name the address that the proxy connects from, such as 10.0.0.2 or 10.0.0.0/24',
      });
    list.addSubnet(address, length, isIPv6(address) ? 'ipv6' : 'ipv4');
  }
  return {
    names,
    hosts: names.every((name) => loopback.includes(name)) ? names : undefined,
    has(address) {
      if (address === undefined) return false;
      const plain = plainAddress(address);
      return list.check(plain, isIPv6(plain) ? 'ipv6' : 'ipv4');
    },
  };
}
