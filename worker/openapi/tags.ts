/** The groups of operations; generators make a class or a module of each. */

/** Tags by the first part of the path that is not the version. */
const tags: Readonly<Record<string, { name: string; description: string }>> = {
  storage: { name: 'Files', description: 'Storing, listing, reading and deleting files' },
  uploads: { name: 'Uploads', description: 'Uploads of any size, which can be continued' },
  shares: { name: 'Shares', description: 'Sealed records that pass files on' },
  pins: { name: 'Pins', description: 'Which pinning services hold what, for the operator' },
  repair: { name: 'Pins', description: 'Which pinning services hold what, for the operator' },
  strays: { name: 'Pins', description: 'Which pinning services hold what, for the operator' },
  migrations: { name: 'Pins', description: 'Which pinning services hold what, for the operator' },
  ipfs: { name: 'Gateway', description: 'The content of CIDs, for anybody' },
  events: { name: 'Events', description: 'What happened in an account' },
  keys: { name: 'Keys', description: 'API keys' },
  usage: { name: 'Keys', description: 'API keys' },
  account: { name: 'Accounts', description: 'Accounts and their recovery' },
  accounts: { name: 'Accounts', description: 'Accounts and their recovery' },
  denylist: { name: 'Denylist', description: 'CIDs that the operator neither serves nor stores' },
  health: { name: 'Service', description: 'The service itself' },
  metrics: { name: 'Service', description: 'The service itself' },
  'openapi.json': { name: 'Service', description: 'The service itself' },
};

/** The tag of a path. @throws Error for a path that belongs to none */
export function tagOf(path: string): string {
  return entryOf(path).name;
}

/** The tags of these paths, in their order. */
export function tagsOf(paths: readonly string[]): { name: string; description: string }[] {
  return [...new Map(paths.map((path) => [tagOf(path), entryOf(path)])).values()];
}

function entryOf(path: string) {
  const part = path.split('/').find((each) => !['', 'v1', 'operator'].includes(each)) ?? '';
  const tag = tags[part];
  if (tag === undefined) throw new Error(`${path} has no tag`);
  return tag;
}
