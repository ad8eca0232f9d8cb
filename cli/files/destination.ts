/** Destinations of plaintext: a file, standard output, or a folder that is made of an archive. */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { observed } from '../../shared/streams/pulled.ts';
import type { Context } from '../context.ts';
import { fetchingAgain } from '../flags/args.ts';
import type { FileIdentity } from '../io/input.ts';
import { openSink, type Sink, writeAll } from '../io/output-file.ts';
import type { Progress } from '../terminal/progress.ts';
import { countText, sizeText } from '../terminal/size.ts';

/** The wanted part of an archive, and its destination. */
export type Placing = {
  /** A path, or `-`. */
  readonly outputFile: string;
  /** Gives another path where somebody else has taken that one; undefined: that one is meant. */
  readonly freeName?: (() => Promise<string>) | undefined;
  readonly force: boolean;
  /** Extracts a tar archive into a new directory `outputFile`. */
  readonly extract: boolean;
  /** Only this file or folder of an archive, as it is named there. */
  readonly path?: string | undefined;
  /** Time of the last change, where it is known. A file of an archive has its own. */
  readonly modified?: Date | undefined;
};

export type PlaintextDestination = Pick<Sink, 'room' | 'abort'> & {
  commit(): Promise<string | undefined>;
  /** Writes all of it. @returns how many bytes, and the note about what was written */
  fill(plaintext: ReadableStream<Uint8Array>, o: Filling): Promise<{ readonly bytes: number; readonly wrote: string }>;
};
type Filling = { readonly progress: Progress; readonly signal: AbortSignal; onWritten(chunk: Uint8Array): void };

/**
 * Ends a destination after a failure.
 * @returns whether a part of the output stays
 * @throws interrupted, with that as its hint
 */
export async function abandon(destination: Pick<Sink, 'abort'> | undefined, { signal }: Pick<Context, 'signal'>) {
  const isPart = (await destination?.abort()) ?? false;
  if (isPart && isSealpinError(signal.reason, 'interrupted'))
    throw new SealpinError('interrupted', signal.reason.message, {
      hint: `the output is incomplete: ${fetchingAgain}`,
      cause: signal.reason,
    });
  return isPart;
}

/** Refuses flags that do not go together. @throws usage */
export function checkPlacing(
  { outputFile, force, extract }: Pick<Placing, 'force' | 'extract'> & { readonly outputFile: string | undefined },
  { json }: Pick<Context['output'], 'json'>,
): void {
  if (outputFile === '-' && json)
    throw new SealpinError('usage', '--json and the file would both go to standard output', {
      hint: 'name a file for the output',
    });
  if (extract && (outputFile === '-' || force))
    throw new SealpinError('usage', `--extract creates a directory: it does not go with ${force ? '--force' : '-'}`, {
      hint: 'name a new directory',
    });
}

/**
 * Opens a destination, which appears complete or not at all.
 * @param input what is being read, and so must not be written
 * @throws the codes of `openSink` and `openExtraction`, usage for a path that is none
 */
export async function openDestination(
  { outputFile, force, extract, path, modified }: Placing,
  context: Context,
  input?: FileIdentity,
): Promise<PlaintextDestination> {
  const part = path === undefined ? undefined : (await import('../folder/part.ts')).parsePart(path);
  if (extract) return folderDestination(outputFile, part, context);
  const sink = await openSink(outputFile, { force, environment: context, input });
  const whole: PlaintextDestination = {
    room: (bytes) => sink.room(bytes),
    commit: () => sink.commit(modified),
    abort: () => sink.abort(),
    async fill(plaintext, filling) {
      let isArchive = false;
      const onStart = (chunk: Uint8Array): void => void (isArchive = isTar(chunk) && !outputFile.endsWith('.tar'));
      const bytes = await writeAll(plaintext, sink, { ...filling, onStart });
      const what = isArchive ? ', a tar archive: decrypt --extract makes the folder of it' : '';
      return { bytes, wrote: `wrote ${outputFile} (${sizeText(bytes)})${what}` };
    },
  };
  if (part === undefined) return whole;
  // How large it is, is known when its header is read.
  const room = async (): Promise<void> => undefined;
  let time: Date | undefined;
  return {
    ...whole,
    room,
    commit: () => sink.commit(time),
    async fill(archive, o) {
      const { modified: own, ...filled } = await fillWithPart(whole, archive, part, o);
      time = own;
      return filled;
    },
  };
}

/** Writes one file of an archive; what comes after it is not read. */
async function fillWithPart(
  whole: PlaintextDestination,
  archive: ReadableStream<Uint8Array>,
  part: readonly string[],
  o: Filling,
): Promise<{ readonly bytes: number; readonly wrote: string; readonly modified: Date }> {
  const [{ entriesIn, wrongKind }, { archiveFailure, entryTime }] = await Promise.all([
    import('../folder/part.ts'),
    import('../folder/extraction.ts'),
  ]);
  try {
    for await (const { header, body } of entriesIn(archive, part)) {
      if (header.type === 'file' && header.name === '')
        // A piece of the archive is in use by what comes after the file in it.
        return { ...(await whole.fill(body, { ...o, onWritten: () => undefined })), modified: entryTime(header) };
      throw wrongKind(part, header);
    }
  } catch (error) {
    throw archiveFailure(error, o.signal);
  }
  throw new TypeError('a part that was not found');
}

async function folderDestination(
  path: string,
  part: readonly string[] | undefined,
  context: Context,
): Promise<PlaintextDestination> {
  const { openExtraction } = await import('../folder/extraction.ts');
  const extraction = await openExtraction(path, context);
  return {
    room: async (bytes) => (part === undefined ? extraction.room(bytes) : undefined),
    commit: () => extraction.commit(),
    async abort() {
      await extraction.abort();
      return false;
    },
    async fill(plaintext, { progress, signal }) {
      const progressing = observed(plaintext, { onChunk: ({ length }) => progress.add(length) });
      const { files, bytes, warning } = await extraction.unpack(progressing, signal, part);
      progress.done();
      if (warning !== undefined) context.output.warn(warning);
      return { bytes, wrote: `wrote ${path} (${countText(files, 'file')}, ${sizeText(bytes)})` };
    },
  };
}

/** Recognizes a tar archive by its magic (POSIX.1-2024, pax, "ustar Interchange Format"). */
function isTar(bytes: Uint8Array): boolean {
  return Buffer.from(bytes.subarray(257, 262)).toString('latin1') === 'ustar';
}
