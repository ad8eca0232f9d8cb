/** Commands in messages that act on the local service of a data directory. */

const localCommands = /\bsealpin (?:start|stop|status|rebuild|account [a-z]+|service [a-z]+)\b/g;

/**
 * Names a data directory in each of these commands of a message: without it they would act on
 * another service.
 * @param dataDir that of `--data-dir`; undefined where the commands find it without
 */
export function withDataDirectory(text: string, dataDir: string | undefined): string {
  if (dataDir === undefined || text.includes(' --data-dir ')) return text;
  return text.replaceAll(localCommands, (command) => `${command} --data-dir ${quoted(dataDir)}`);
}

/** A path as any POSIX shell takes it. */
export function quoted(path: string): string {
  return `'${path.replaceAll("'", String.raw`'\''`)}'`;
}
