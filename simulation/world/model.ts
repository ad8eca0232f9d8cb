/**
 * The reference model: what clients may see, from what they were told. Of what a client was not
 * told, such as whether a request whose line broke was carried out, it allows either, until
 * everything has come to rest and a list says which.
 */
import type { StoredFile } from '../../shared/api.ts';
import { Denials } from './denials.ts';
import { bytesOfContent, type Mode } from './plan.ts';
import { lasts, type KeyTerms } from './promises.ts';
import { Quotas } from './quotas.ts';

/** Something that was seen and must not be. */
export class Violation extends Error {}

/** A file that a client has asked for. Times in ms; `Infinity`: not yet. */
export type ModelFile = {
  readonly step: number;
  readonly account: number;
  readonly key: number | undefined;
  /** Set if an invitation stored it: then it goes where no share names it, and with its share. */
  readonly isOfGuest: boolean;
  readonly mode: Mode;
  readonly bytes: Uint8Array;
  readonly begunAt: number;
  /** The times of its end that may hold. */
  ends: readonly number[];
  /** Values that may have been written beside it last. */
  notes: readonly string[];
  fileId: string | undefined;
  cid: string | undefined;
  /** From then on it is certainly stored. */
  storedBy: number;
  /** From then on it may be deleted, and from then on it certainly is. */
  goneFrom: number;
  goneBy: number;
  /** From then on nothing is left to remove for it: a deletion may be told before that. */
  removedBy: number;
  /** Number of deletions that were begun. */
  deletions: number;
  /** Set while an upload of it reserves its bytes. */
  reservesUntil: number;
};

/**
 * A share. `totals`: how often it may open in all; while they change, what is left is not compared.
 * `left`: what openings have said is left, each number once; `answered`: how many there were.
 */
export type ModelShare = {
  readonly step: number;
  readonly account: number;
  readonly file: ModelFile;
  totals: readonly number[];
  readonly record: string;
  ends: readonly number[];
  id: string | undefined;
  goneFrom: number;
  goneBy: number;
  readonly left: Set<number>;
  answered: number;
  readonly tokens: Map<string, number>;
  /** Openings whose answers were lost. */
  unsure: number;
};

/** The terms of a share, as it tells them. */
export type Terms = { opens: number; opensLeft: number; expiresAt: number };

const never = { storedBy: Infinity, goneBy: Infinity, removedBy: Infinity, reservesUntil: Infinity };
const unknown = { notes: [''], fileId: undefined, cid: undefined, deletions: 0 };

/** A file of a guest that no share names goes a day after the guest's last request. */
const unsharedMs = 23 * 3_600_000;

/** A file, as a list has it. */
type ListedFile = Omit<StoredFile, 'mode' | 'contentType' | 'createdAt' | 'pins'>;

/** A status and a code, such as 404 `not_found`. */
export type Outcome = { status: number; code: string | undefined };

/** Outcome of a read. By a CID, any file with these bytes is read. */
type ReadOutcome = Outcome & { bytes?: Uint8Array; isWhole?: boolean; isByCid?: boolean };

export class Model {
  readonly quotas = new Quotas();
  readonly denials = new Denials();
  readonly files: ModelFile[] = [];
  readonly shares: ModelShare[] = [];
  readonly keys = new Map<number, KeyTerms>();

  file(step: number): ModelFile | undefined {
    return this.files.find((each) => each.step === step);
  }

  share(step: number): ModelShare | undefined {
    return this.shares.find((each) => each.step === step);
  }

  /** A client begins to store a file. */
  begin(
    file: Pick<ModelFile, 'step' | 'account' | 'key' | 'isOfGuest' | 'mode' | 'begunAt' | 'ends'>,
    content: number,
  ): ModelFile {
    const goneFrom = file.isOfGuest ? file.begunAt + unsharedMs : Infinity;
    this.files.push({ ...file, ...unknown, ...never, goneFrom, bytes: bytesOfContent(content) });
    return this.files.at(-1) as ModelFile;
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
    if (file.mode === 'plain' && this.denials.isDenied(cid, file.begunAt, now))
      fail(`step ${file.step} stores what is denied`);
    this.#mustFit(file, now);
  }

  /** A client was told that a file is not stored; nothing that it did before may have stored it. */
  refused(file: ModelFile, { code }: Outcome, now: number): void {
    file.goneFrom = file.begunAt;
    file.goneBy = now;
    file.reservesUntil = now;
    if (code === 'quota_exceeded') this.#mustBeFull(file, now);
  }

  /** The quota and the usage that an account tells when everything rests, with all that it has. */
  accountRests(account: number, told: { quota: number; bytes: number }, files: ModelFile[], now: number): void {
    if (!this.quotas.rests(account, told.quota, now))
      fail(`account ${account} has a quota of ${told.quota}, which nobody has set`);
    const bytes = sumOfBytes(files);
    if (told.bytes !== bytes) fail(`account ${account} counts ${told.bytes} bytes, and has ${bytes}`);
  }

  /**
   * Tells whether the bytes of a file are needed by nobody after its deletion, which has been told:
   * then what a receipt says of them must be so. A file whose own removal is still scheduled needs
   * them, and so does an attempt to store them that broke off.
   */
  wasLast(file: ModelFile, from = Math.min(file.goneFrom, ...file.ends)): boolean {
    const twins = this.files.filter(({ bytes }) => Buffer.compare(bytes, file.bytes) === 0);
    return twins.every((each) => Math.max(each === file ? 0 : each.removedBy, each.reservesUntil) <= from);
  }

  /** A read of a file, by its ID or its CID, that lasted from one time to another. */
  read(file: ModelFile, from: number, to: number, seen: ReadOutcome): void {
    const name = `the file of step ${file.step}`;
    if (seen.code === 'decrypt_failed') fail(`${name} is not opened`);
    if (seen.code === 'content_denied' && !this.denials.mayBeDenied(file.cid, from, to))
      fail(`${name} is denied by nobody`);
    if (seen.status === 200) {
      const gone = seen.isByCid === true ? file.removedBy <= from && this.wasLast(file, from) : mustBeGone(file, from);
      if (gone) fail(`${name} is read, although it is gone`);
      if (this.denials.isDenied(file.cid ?? '', from, to)) fail(`${name} is read, although it is denied`);
      if (seen.bytes !== undefined && !isBeginning(seen.bytes, file.bytes, seen.isWhole === true))
        fail(`${name} is read, and has other bytes`);
    } else if (isAbsence(seen) && seen.code !== 'content_denied') {
      const found = this.files.filter((each) => each === file || (seen.isByCid === true && each.cid === file.cid));
      if (found.some((each) => mustExist(each, from, to))) fail(`${name} is stored, and a read says ${seen.status}`);
    }
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

  /** A receipt says what became of the bytes of a file. */
  receiptSays(file: ModelFile, pins: readonly { status: string }[], now: number): void {
    if (pins.every(({ status }) => status !== 'scheduled')) file.removedBy = Math.min(file.removedBy, now);
  }

  /** A share is opened, from one time to another. @param o `totals`: those before */
  shareOpened(
    share: ModelShare,
    seen: Outcome & { opensLeft?: number; record?: string },
    o: { from: number; to: number; totals: readonly number[]; token: string; replayed: boolean },
  ): void {
    const name = `the share of step ${share.step}`;
    const { opensLeft } = seen;
    // It ends with its file.
    share.goneFrom = Math.min(share.goneFrom, share.file.goneFrom);
    if (seen.status === 200) {
      if (mustBeGone({ ...share, storedBy: 0 }, o.from)) fail(`${name} is opened, although it has ended`);
      if (seen.record !== share.record) fail(`${name} hands out another record`);
      const most = Math.max(...o.totals, ...share.totals);
      if (opensLeft === undefined || opensLeft < 0 || opensLeft > most || (opensLeft === most && !o.replayed))
        return fail(`${name} has ${opensLeft} left`);
      if (o.replayed && !share.tokens.has(o.token)) fail(`${name} repeats an opening that nobody made`);
      if (o.replayed) return;
      share.answered += 1;
      if (share.answered > most) fail(`${name} opens ${share.answered} times of ${most}`);
      if (share.totals.length > 1 || share.totals !== o.totals) return;
      if (share.left.has(opensLeft)) fail(`${name} says twice that ${opensLeft} are left`);
      share.left.add(opensLeft);
    } else if (isAbsence(seen) && mustExist({ ...share, ends: endsOf(share), storedBy: 0 }, o.from, o.to)) {
      const used = share.answered + share.unsure;
      const least = Math.min(...share.totals);
      if (used < least) fail(`${name} was opened ${used} times of ${least}, and says ${seen.status}`);
    }
  }

  /** Checks what a share says of itself when everything rests. */
  shareRests(share: ModelShare, now: number, { opens, opensLeft, expiresAt }: Terms): void {
    const used = opens - opensLeft;
    const name = `the share of step ${share.step}`;
    if (used < share.answered || used > share.answered + share.unsure)
      fail(`${name} counts ${used} openings; ${share.answered} were answered, ${share.unsure} may have been`);
    if (!share.totals.includes(opens)) fail(`${name} opens ${opens} times`);
    if (!(share.ends.length > 1 ? endsOf(share) : share.ends).includes(expiresAt)) fail(`${name} ends at ${expiresAt}`);
    if (share.totals.length > 1) share.left.clear();
    share.totals = [opens];
    share.ends = [expiresAt];
    if (mustBeGone({ ...share, storedBy: 0 }, now)) fail(`${name} is active, although it has ended`);
  }

  /**
   * The list of an account when everything rests: from now on it is known what became of each file.
   * @returns the files that are stored
   */
  rests(account: number, listed: readonly ListedFile[], now: number): ModelFile[] {
    const seen = new Set<ModelFile>();
    for (const { fileId, cid, filename, expiresAt, size, metadata, details } of listed) {
      const file = this.file(Number(filename?.replace('step-', '')));
      if (file === undefined || file.account !== account) return fail(`a file ${filename} is listed`);
      if (seen.has(file)) fail(`the file of step ${file.step} is listed twice`);
      if (mustBeGone(file, now)) fail(`the file of step ${file.step} is listed, although it is gone`);
      if (size !== file.bytes.length) fail(`the file of step ${file.step} is listed with ${size} bytes`);
      const end = expiresAt === undefined ? Infinity : Date.parse(expiresAt);
      if (!file.ends.includes(end)) fail(`the file of step ${file.step} ends at ${expiresAt ?? 'no time'}`);
      if (file.fileId !== undefined && file.fileId !== fileId) fail(`the file of step ${file.step} has another ID`);
      const { note = '' } = metadata ?? {};
      if (!file.notes.includes(note)) fail(`the file of step ${file.step} has the note ${note}`);
      const told = Buffer.from(details ?? '', 'base64').toString();
      if (file.mode === 'plain' && !told.endsWith(note))
        fail(`the file of step ${file.step} has other details than ${note}`);
      seen.add(file);
      const goneFrom = file.isOfGuest ? now : Infinity;
      const storedBy = Math.min(now, file.storedBy);
      Object.assign(file, { fileId, cid, storedBy, goneFrom, ends: [end], notes: [note] });
    }
    for (const file of this.files.filter((each) => each.account === account)) {
      file.reservesUntil = Math.min(file.reservesUntil, now);
      if (seen.has(file)) continue;
      if (mustExist(file, now, now)) fail(`the file of step ${file.step} is stored, and not listed`);
      file.goneFrom = Math.min(file.goneFrom, now);
      file.goneBy = Math.min(file.goneBy, now);
      file.removedBy = Math.min(file.removedBy, now);
    }
    return [...seen];
  }

  /**
   * An account is being closed, with all that it has. Its shares end in the background.
   * @returns is called when it is
   */
  closing(account: number, now: number): (done: number) => void {
    const all = (): (ModelFile | ModelShare)[] =>
      [...this.files, ...this.shares].filter((each) => each.account === account);
    for (const each of all()) this.deleting(each, now);
    return (done) => {
      for (const each of all()) {
        this.deleting(each, now);
        if ('deletions' in each) each.goneBy = Math.min(each.goneBy, done);
      }
    };
  }

  /** The other files of an account that certainly count while one is stored, or may. */
  #others(file: ModelFile, isCertain: boolean, now: number): ModelFile[] {
    const { account, begunAt } = file;
    const counts = (each: ModelFile) => (isCertain ? mustExist(each, begunAt, now) : mayCount(each, begunAt));
    return this.files.filter((each) => each.account === account && each !== file && counts(each));
  }

  /** Their bytes, with what invitations are promised, but not the one that stores this file. */
  #bytesBeside(file: ModelFile, isCertain: boolean, now: number): number {
    const isPromised = (key: KeyTerms | undefined): boolean =>
      key?.isInvitation === true && key.account === file.account && lasts(key, isCertain, file.begunAt, now);
    const invited = [...this.keys].filter(([step, key]) => step !== file.key && isPromised(key));
    const others = this.#others(file, isCertain, now).filter(({ key }) => !invited.some(([step]) => step === key));
    return sumOfBytes(others) + invited.reduce((sum, [, { bytes }]) => sum + bytes, 0);
  }

  /** Checks that what an account stores fits its quota whenever something is stored. */
  #mustFit(file: ModelFile, now: number): void {
    const quota = Math.max(...this.quotas.possible(file.account, file.begunAt));
    const others = this.#others(file, true, now);
    const bytes = sumOfBytes([file, ...others]);
    // Where a quota was lowered, a file without bytes still fits.
    if (bytes > quota && file.bytes.length > 0)
      fail(`${bytes} bytes are stored with a quota of ${quota} (step ${file.step})`);
    const ofKey = [file, ...others.filter(({ key }) => key !== undefined && key === file.key)];
    const { files, bytes: keyBytes } = this.keys.get(file.key ?? 0) ?? { files: Infinity, bytes: Infinity };
    if (ofKey.length > files || sumOfBytes(ofKey) > keyBytes)
      fail(`a key has stored ${ofKey.length} files, ${sumOfBytes(ofKey)} bytes (step ${file.step})`);
    const all = sumOfBytes([file]) + this.#bytesBeside(file, true, now);
    if (all > quota && this.quotas.isSame(file.account)) fail(`step ${file.step} stores what invitations are promised`);
  }

  /** Only what may be full refuses. */
  #mustBeFull(file: ModelFile, now: number): void {
    const key = this.keys.get(file.key ?? 0);
    // The limits of other keys have models of their own.
    if (key?.isInvitation === false) return;
    const others = this.#others(file, false, now);
    const own = [file, ...others.filter((each) => each.key === file.key)];
    if (key !== undefined && (own.length > key.files || sumOfBytes(own) > key.bytes)) return;
    // A guest is refused what was promised only where another quota leaves less.
    const isKept = key && this.quotas.isSame(file.account);
    const quota = isKept ? Infinity : Math.min(...this.quotas.possible(file.account, file.begunAt));
    const bytes = sumOfBytes([file]) + (key ? sumOfBytes(others) : this.#bytesBeside(file, false, now));
    if (bytes <= quota) fail(`step ${file.step} is refused: at most ${bytes} of ${quota} bytes (until ${now})`);
  }
}

/**
 * A client begins to change a value. @returns is called when it is told that it holds: where no
 * other change is under way, or uncertain, it is the only one from then on
 */
export function changing<K extends 'ends' | 'notes' | 'totals', V>(
  of: Record<NoInfer<K>, readonly V[]>,
  kind: K,
  to: V,
) {
  const { [kind]: before } = of;
  const both: readonly V[] = [...before, to];
  of[kind] = both;
  return (held = to): boolean => {
    const isAlone = before.length === 1 && of[kind] === both;
    if (isAlone) of[kind] = [held];
    return isAlone;
  };
}

/** The ends that a share may have: it ends with its file. */
const endsOf = (share: ModelShare): number[] => [...share.ends, ...share.file.ends];

/** Bytes of a container before its chunks, of a chunk, and of its tag. */
const sealed = { before: 76, chunk: 16_384, tag: 16 };

/** The bytes that a file counts for. */
function storedBytes({ mode, bytes: { length } }: ModelFile): number {
  return mode === 'plain' ? length : length + sealed.before + sealed.tag * (1 + Math.floor(length / sealed.chunk));
}

const sumOfBytes = (files: readonly ModelFile[]): number => files.reduce((sum, file) => sum + storedBytes(file), 0);

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
const expiryGraceMs = 3_600_000;

function mayCount(file: ModelFile, at: number): boolean {
  return file.goneBy > at && (Math.max(...file.ends) + expiryGraceMs > at || file.reservesUntil > at);
}

function isAbsence({ status }: Outcome): boolean {
  return status === 404 || status === 410;
}

function isBeginning(bytes: Uint8Array, of: Uint8Array, isWhole: boolean): boolean {
  if (isWhole ? bytes.length !== of.length : bytes.length > of.length) return false;
  return Buffer.compare(bytes, of.subarray(0, bytes.length)) === 0;
}

export function fail(what: string): never {
  throw new Violation(what);
}
