/** The groups of operations; generators make a class or a module of each. */

/** Tags, and the first parts of their paths that are not the version. */
const tags: readonly { name: string; description: string; of: readonly string[] }[] = [
  { name: 'Files', description: 'Storing, listing, reading and deleting files', of: ['storage'] },
  { name: 'Uploads', description: 'Uploads of any size, which can be continued', of: ['uploads'] },
  { name: 'Shares', description: 'Sealed records that pass files on', of: ['shares'] },
  {
    name: 'Pins',
    description: 'Which pinning services hold what, for the operator',
    of: ['pins', 'repair', 'strays', 'migrations'],
  },
  { name: 'Gateway', description: 'The content of CIDs, for anybody', of: ['ipfs'] },
  { name: 'Events', description: 'What happened in an account', of: ['events'] },
  { name: 'Keys', description: 'API keys', of: ['keys', 'usage'] },
  { name: 'Accounts', description: 'Accounts and their recovery', of: ['account', 'accounts'] },
  { name: 'Denylist', description: 'CIDs that the operator neither serves nor stores', of: ['denylist'] },
  { name: 'Service', description: 'The service itself', of: ['health', 'metrics', 'openapi.json'] },
];

/** The tag of a path. @throws Error for a path that belongs to none */
export function tagOf(path: string): string {
  return tagEntry(path).name;
}

/** The tags of these paths, in their order. */
export function tagsOf(paths: readonly string[]): { name: string; description: string }[] {
  return [...new Set(paths.map(tagEntry))].map(({ name, description }) => ({ name, description }));
}

function tagEntry(path: string) {
  const part = path.split('/').find((each) => !['', 'v1', 'operator'].includes(each)) ?? '';
  const tag = tags.find(({ of }) => of.includes(part));
  if (tag === undefined) throw new Error(`${path} has no tag`);
  return tag;
}
