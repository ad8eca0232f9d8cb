/** Origin of a release, written into the packages when it is made: `node packaging/release.ts`. */

/** Origin as a published `package.json` states it. */
type CommitOrigin = {
  readonly repository: { readonly type: 'git'; readonly url: string };
  readonly bugs: { readonly url: string };
  readonly homepage: string;
};

/**
 * The origin of a release, from the environment of a GitHub workflow (its documentation: "Default
 * environment variables").
 * @param version of the packages; the tag in GITHUB_REF_NAME must be `v` and this
 * @throws TypeError with what is missing or does not fit
 */
export function originOf(env: Readonly<Record<string, string | undefined>>, version: string): CommitOrigin {
  const server = URL.parse(env['GITHUB_SERVER_URL'] ?? '');
  if (server?.protocol !== 'https:')
    throw new TypeError('GITHUB_SERVER_URL is not an https URL; a release is made by its workflow');
  const repository = env['GITHUB_REPOSITORY'] ?? '';
  if (!/^[\w.-]+\/[\w.-]+$/.test(repository)) throw new TypeError('GITHUB_REPOSITORY is not owner/name');
  const tag = env['GITHUB_REF_NAME'];
  if (tag !== `v${version}`) throw new TypeError(`the tag is ${tag}, and package.json says ${version}`);
  const page = `${server.origin}/${repository}`;
  return {
    repository: { type: 'git', url: `git+${page}.git` },
    bugs: { url: `${page}/issues` },
    homepage: `${page}#readme`,
  };
}
