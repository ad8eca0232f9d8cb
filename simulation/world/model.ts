/**
 * The reference model: what clients may see, from what they were told. Of what a client was not
 * told, such as whether a request whose line broke was carried out, it allows either, until
 * everything has come to rest and a list says which.
 */
import { contentOf, type Mode } from './plan.ts';

/** Something that was seen and must not be. */
export class Violation extends Error {}

/** A file that a client has asked for. Times in ms; `Infinity`: not yet. */
export type ModelFile = {
  readonly step: number;
  readonly account: number;
  readonly key: number | undefined;
  readonly mode: Mode;
  readonly bytes: Uint8Array;
  readonly begunAt: number;
  /** The times of its end that may hold. */
  ends: readonly number[];
  fileId: string | undefined;
  cid: string | undefined;
  /** From then on it is certainly stored. */
  storedBy: number;
  /** From then on it may be deleted, and from then on it certainly is. */
  goneFrom: number;
  goneBy: number;
  /** Number of deletions that were begun. */
  deletions: number;
  /** Set while an upload of it reserves its bytes. */
  reservesUntil: number;
};

/** A share. `left`: what openings have said is left, each number once. */
export type ModelShare = {
  readonly step: number;
  readonly account: number;
  readonly file: ModelFile;
  readonly opens: number;
  readonly record: string;
  ends: readonly number[];
  id: string | undefined;
  goneFrom: number;
  goneBy: number;
  readonly left: Set<number>;
  readonly tokens: Map<string, number>;
  /** Openings whose answers were lost. */
  unsure: number;
};

/** A quota that may hold. `done`: its setter was told so; `until`: another one holds by then. */
type Quota = { from: number; done: number; until: number; value: number };

/** A status and a code, such as 404 `not_found`. */
export type Outcome = { status: number; code: string | undefined };

export class Model {
  readonly files: ModelFile[] = [];
  readonly shares: ModelShare[] = [];
  /** Number of files that the key of a step may store. */
  readonly limits = new Map<number, number>();
  readonly #quotas = new Map<number, Quota[]>();

  /** An account is made; one of the same number is closed by then. */
  opened(account: number, quota: number | null, now: number): void {
    for (const each of this.#quotas.get(account) ?? []) each.until = Math.min(each.until, now);
    this.setQuota(account, quota, now)(now);
  }

  file(step: number): ModelFile | undefined {
    return this.files.find((each) => each.step === step);
  }

  share(step: number): ModelShare | undefined {
    return this.shares.find((each) => each.step === step);
  }

  /** A client begins to store a file. */
  begin(file: Pick<ModelFile, 'step' | 'account' | 'key' | 'mode' | 'begunAt' | 'ends'>, content: number): ModelFile {
    const made = { ...file, bytes: contentOf(content), fileId: undefined, cid: undefined };
    const begun = {
      ...made,
      storedBy: Infinity,
      goneFrom: Infinity,
      goneBy: Infinity,
      deletions: 0,
      reservesUntil: Infinity,
    };
    this.files.push(begun);
    return begun;
  }

  /** A client was told that a file is stored. */
  stored(file: ModelFile, { fileId, cid }: { fileId: string; cid: string }, now: number): void {
    if (file.fileId !== undefined && file.fileId !== fileId) fail(`the file of step ${file.step} has two IDs`);
    const twin = this.files.find((each) => each !== file && each.fileId === fileId);
    if (twin !== undefined) fail(`the files of the steps ${file.step} and ${twin.step} have one ID`);
    file.fileId = fileId;
    file.cid = cid;
    file.storedBy = Math.min(file.storedBy, now);
    file.reservesUntil = now;
    this.#mustFit(file, now);
  }

  /** A client was told that a file is not stored; nothing that it did before may have stored it. */
  refused(file: ModelFile, { code }: Outcome, now: number): void {
    file.goneFrom = file.begunAt;
    file.goneBy = now;
    file.reservesUntil = now;
    if (code === 'quota_exceeded') this.#mustBeFull(file, now);
  }

  /**
   * The operator sets a quota. Of two changes at once either may come last.
   * @returns is called when the operator is told that it holds
   */
  setQuota(account: number, bytes: number | null, now: number): (done: number) => void {
    const quota: Quota = { from: now, done: Infinity, until: Infinity, value: bytes ?? Infinity };
    const all = this.#quotas.get(account) ?? [];
    this.#quotas.set(account, [...all, quota]);
    return (done) => {
      quota.done = done;
      for (const each of all) if (each.done <= now) each.until = Math.min(each.until, done);
    };
  }

  /** The quota and the usage that an account tells when everything rests, with all that it has. */
  accountRests(
    account: number,
    told: { quota: number; bytes: number },
    files: readonly ModelFile[],
    now: number,
  ): void {
    const all = this.#quotas.get(account) ?? [];
    const last = all.findLast(({ value, until }) => value === told.quota && until > now);
    if (last === undefined) return fail(`account ${account} has a quota of ${told.quota}, which nobody has set`);
    for (const each of all) if (each !== last) each.until = Math.min(each.until, now);
    last.done = Math.min(last.done, now);
    const bytes = files.reduce((sum, each) => sum + storedBytes(each), 0);
    if (told.bytes !== bytes) fail(`account ${account} counts ${told.bytes} bytes, and has ${bytes}`);
  }

  /**
   * Tells whether the bytes of a file are needed by nobody after its deletion, which has been told:
   * then what a receipt says of them must be so.
   */
  wasLast(file: ModelFile): boolean {
    const from = Math.min(file.goneFrom, ...file.ends);
    const isEqual = (other: ModelFile): boolean => Buffer.compare(other.bytes, file.bytes) === 0;
    return this.files.every((each) => each === file || each.goneBy <= from || !isEqual(each));
  }

  /** A read of a file that lasted from one time to another. */
  read(file: ModelFile, from: number, to: number, seen: Outcome & { bytes?: Uint8Array; isWhole?: boolean }): void {
    const name = `the file of step ${file.step}`;
    if (seen.status === 200) {
      if (mustBeGone(file, from)) fail(`${name} is read, although it is gone`);
      if (seen.bytes !== undefined && !isBeginning(seen.bytes, file.bytes, seen.isWhole === true))
        fail(`${name} is read, and has other bytes`);
    } else if (isAbsence(seen) && mustExist(file, from, to)) fail(`${name} is stored, and a read says ${seen.status}`);
  }

  /** Somebody begins to delete a file, or what ends a share. */
  deleting(each: ModelFile | ModelShare, now: number): void {
    each.goneFrom = Math.min(each.goneFrom, now);
    if ('deletions' in each) each.deletions += 1;
  }

  /** A client was told that a file is deleted; or that there is none to delete. */
  deleted(file: ModelFile, from: number, now: number, seen: Outcome, wasAlone: boolean): void {
    if (seen.status === 200 && mustBeGone(file, from)) fail(`the file of step ${file.step} is deleted twice`);
    if (isAbsence(seen) && wasAlone && mustExist({ ...file, goneFrom: Infinity }, from, now))
      fail(`the file of step ${file.step} is stored, and its deletion says ${seen.status}`);
    file.goneBy = Math.min(file.goneBy, now);
  }

  /** A client changes the end of a file. @param isCertain whether it was told so */
  ends(file: ModelFile, end: number, isCertain: boolean): void {
    file.ends = isCertain ? [end] : [...file.ends, end];
  }

  /** A share is opened, from one time to another. */
  shareOpened(
    share: ModelShare,
    o: {
      from: number;
      to: number;
      token: string;
      seen: Outcome;
      opensLeft?: number;
      record?: string;
      replayed: boolean;
    },
  ): void {
    const name = `the share of step ${share.step}`;
    const { seen, opensLeft, token } = o;
    // It ends with its file.
    share.goneFrom = Math.min(share.goneFrom, share.file.goneFrom);
    share.ends = [...new Set([...share.ends, Math.min(...share.ends, ...share.file.ends)])];
    if (seen.status === 200) {
      if (mustBeGone({ ...share, storedBy: 0 }, o.from)) fail(`${name} is opened, although it has ended`);
      if (o.record !== share.record) fail(`${name} hands out another record`);
      if (opensLeft === undefined || opensLeft < 0 || opensLeft >= share.opens) fail(`${name} has ${opensLeft} left`);
      if (o.replayed && !share.tokens.has(token)) fail(`${name} repeats an opening that nobody made`);
      if (o.replayed) return;
      if (share.left.has(opensLeft)) fail(`${name} says twice that ${opensLeft} are left`);
      share.left.add(opensLeft);
    } else if (isAbsence(seen) && mustExist({ ...share, storedBy: 0 }, o.from, o.to)) {
      const used = share.left.size + share.unsure;
      if (used < share.opens) fail(`${name} was opened ${used} times of ${share.opens}, and says ${seen.status}`);
    }
  }

  /** Checks what a share says of itself when everything rests. */
  shareRests(share: ModelShare, now: number, opensLeft: number): void {
    const used = share.opens - opensLeft;
    const name = `the share of step ${share.step}`;
    if (used < share.left.size || used > share.left.size + share.unsure)
      fail(`${name} counts ${used} openings; ${share.left.size} were answered, ${share.unsure} may have been`);
    if (mustBeGone({ ...share, storedBy: 0 }, now)) fail(`${name} is active, although it has ended`);
  }

  /**
   * The list of an account when everything rests: from now on it is known what became of each file.
   * @returns the files that are stored
   */
  rests(
    account: number,
    listed: readonly { fileId: string; cid: string; filename: string | null; expiresAt?: string; size: number }[],
    now: number,
  ): ModelFile[] {
    const seen = new Set<ModelFile>();
    for (const { fileId, cid, filename, expiresAt, size } of listed) {
      const file = this.file(Number(filename?.replace('step-', '')));
      if (file === undefined || file.account !== account) return fail(`a file ${filename} is listed`);
      if (seen.has(file)) fail(`the file of step ${file.step} is listed twice`);
      if (mustBeGone(file, now)) fail(`the file of step ${file.step} is listed, although it is gone`);
      if (size !== file.bytes.length) fail(`the file of step ${file.step} is listed with ${size} bytes`);
      const end = expiresAt === undefined ? Infinity : Date.parse(expiresAt);
      if (!file.ends.includes(end)) fail(`the file of step ${file.step} ends at ${expiresAt ?? 'no time'}`);
      if (file.fileId !== undefined && file.fileId !== fileId) fail(`the file of step ${file.step} has another ID`);
      seen.add(file);
      Object.assign(file, { fileId, cid, storedBy: Math.min(now, file.storedBy), goneFrom: Infinity, ends: [end] });
    }
    for (const file of this.files.filter((each) => each.account === account)) {
      file.reservesUntil = Math.min(file.reservesUntil, now);
      if (seen.has(file)) continue;
      if (mustExist(file, now, now)) fail(`the file of step ${file.step} is stored, and not listed`);
      file.goneFrom = Math.min(file.goneFrom, now);
      file.goneBy = Math.min(file.goneBy, now);
    }
    return [...seen];
  }

  /** An account is being closed, with all that it has. @returns is called when it is */
  closing(account: number, now: number): (done: number) => void {
    const all = (): (ModelFile | ModelShare)[] =>
      [...this.files, ...this.shares].filter((each) => each.account === account);
    for (const each of all()) this.deleting(each, now);
    return (done) => {
      for (const each of all()) {
        this.deleting(each, now);
        each.goneBy = Math.min(each.goneBy, done);
      }
    };
  }

  /** Checks that what an account stores fits its quota whenever something is stored. */
  #mustFit(file: ModelFile, now: number): void {
    const quota = Math.max(...this.#possible(file));
    const others = this.files.filter(
      (each) => each.account === file.account && each !== file && mustExist(each, file.begunAt, now),
    );
    const bytes = [file, ...others].reduce((sum, each) => sum + storedBytes(each), 0);
    // Where a quota was lowered, a file without bytes still fits.
    if (bytes > quota && file.bytes.length > 0)
      fail(`${bytes} bytes are stored with a quota of ${quota} (step ${file.step})`);
    const ofKey = others.filter(({ key }) => key !== undefined && key === file.key).length + 1;
    if (ofKey > (this.limits.get(file.key ?? 0) ?? Infinity))
      fail(`a key has stored ${ofKey} files (step ${file.step})`);
  }

  /** The quotas that may have held since a file was begun. */
  #possible({ account, begunAt }: ModelFile): number[] {
    return (this.#quotas.get(account) ?? []).filter(({ until }) => until > begunAt).map(({ value }) => value);
  }

  /** Only what may be full refuses. */
  #mustBeFull(file: ModelFile, now: number): void {
    // The limits of keys have models of their own.
    if (file.key !== undefined) return;
    const quota = Math.min(...this.#possible(file));
    const others = this.files.filter(
      (each) => each !== file && each.account === file.account && mayCount(each, file.begunAt),
    );
    const bytes = [file, ...others].reduce((sum, each) => sum + storedBytes(each), 0);
    if (bytes <= quota) fail(`step ${file.step} is refused: at most ${bytes} of ${quota} bytes (until ${now})`);
  }
}

/** Bytes of a container before its chunks, of a chunk, and of its tag. */
const sealed = { before: 76, chunk: 16_384, tag: 16 };

/** The bytes that a file counts for. */
function storedBytes({ mode, bytes: { length } }: ModelFile): number {
  return mode === 'plain' ? length : length + sealed.before + sealed.tag * (1 + Math.floor(length / sealed.chunk));
}

type Lifetime = Pick<ModelFile, 'ends' | 'storedBy' | 'goneFrom' | 'goneBy'>;

/** Tells whether something exists for the whole of a time. */
function mustExist({ ends, storedBy, goneFrom }: Lifetime, from: number, to: number): boolean {
  return storedBy <= from && goneFrom > to && Math.min(...ends) > to;
}

/** Tells whether something does not exist at a time. */
export function mustBeGone({ ends, goneBy }: Lifetime, at: number): boolean {
  return goneBy <= at || Math.max(...ends) <= at;
}

/** Expired files count until the alarm has removed them. */
const lateMs = 3_600_000;

function mayCount(file: ModelFile, at: number): boolean {
  return file.goneBy > at && (Math.max(...file.ends) + lateMs > at || file.reservesUntil > at);
}

function isAbsence({ status }: Outcome): boolean {
  return status === 404 || status === 410;
}

function isBeginning(bytes: Uint8Array, of: Uint8Array, isWhole: boolean): boolean {
  if (isWhole ? bytes.length !== of.length : bytes.length > of.length) return false;
  return Buffer.compare(bytes, of.subarray(0, bytes.length)) === 0;
}

function fail(what: string): never {
  throw new Violation(what);
}
