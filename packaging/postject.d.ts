/** postject brings no types of its own. */
declare module 'postject' {
  /** Writes a resource into an executable, and flips the fuse by which Node knows of it. */
  export function inject(
    path: string,
    name: string,
    data: Uint8Array,
    options: { sentinelFuse: string },
  ): Promise<void>;
}
