/**
 * V8's compiled code of the bundled command line, which each command keeps for its next run. Node's own cache of compiled code
 * (`module.enableCompileCache`) has no function that is compiled at its first call, which are most.
 */
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire, wrap } from 'node:module';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';
import { Script } from 'node:vm';
import { restoreYoungGeneration } from './young-generation.ts';

const checksumBytes = 4;
/** After how long compiled code is removed, in ms: most is of versions that are gone, and a command that needs it keeps it again. */
const keptMs = 90 * 86_400_000;

/**
 * Runs a bundle by the compiled code that the last run of the same command kept, and keeps it where there is none that fits.
 *
 * @param path of the bundle: CommonJS in ASCII, without `import()`
 * @returns what it exports
 */
export function runCompiled(path: string): unknown {
  const source = readFileSync(path);
  const kept = keptPath();
  const cachedData = kept === undefined ? undefined : readKept(kept, source);
  const script = new Script(wrap(source.toString('latin1')), { filename: path, ...(cachedData && { cachedData }) });
  const module = { exports: {} };
  const run = script.runInThisContext() as (...names: readonly unknown[]) => void;
  run(module.exports, createRequire(path), module, path, dirname(path));
  if (kept !== undefined && (cachedData === undefined || script.cachedDataRejected === true))
    process.once('exit', (code) => {
      if (code === 0) keep(kept, source, script);
    });
  return module.exports;
}

/** Returns the path of this command's compiled code, for this V8 with its flags; undefined where none is kept. */
function keptPath(): string | undefined {
  const [command = ''] = process.argv.slice(2);
  const folder = /^[a-z][a-z-]*$/.test(command) ? privateFolder(process) : undefined;
  return folder && join(folder, `${command}-${versionTag()}`);
}

function versionTag(): string {
  return process.getBuiltinModule('node:v8').cachedDataVersionTag().toString(16);
}

/**
 * The folder of compiled code in the user's cache directory, if there is one. V8 does not check that such code was made of the source: it
 * runs as if it were this program's own. So the folder is used only if nobody but this user, and root, can put files there.
 */
function privateFolder({ env, platform, geteuid }: NodeJS.Process): string | undefined {
  const user = geteuid?.();
  if (user === undefined) return undefined;
  try {
    // XDG Base Directory Specification 0.8, which demands that a relative path is ignored.
    const xdg = env['XDG_CACHE_HOME'];
    const caches =
      xdg !== undefined && isAbsolute(xdg) ? xdg : join(homedir(), platform === 'darwin' ? 'Library/Caches' : '.cache');
    if (!isAbsolute(caches) || !isOutOfReach(realpathSync.native(caches), user)) return undefined;
    const made = join(caches, 'sealpin', 'compiled');
    mkdirSync(made, { recursive: true, mode: 0o700 });
    const folder = realpathSync.native(made);
    const { uid, mode } = statSync(folder);
    return uid === user && (mode & 0o077) === 0 && isOutOfReach(dirname(folder), user) ? folder : undefined;
  } catch {
    return undefined; // a command needs no compiled code
  }
}

/**
 * Checks that other users can change nothing in a folder, nor replace it.
 * @param path absolute, without symbolic links
 */
function isOutOfReach(path: string, user: number): boolean {
  const { uid, mode } = statSync(path);
  const isSticky = (mode & 0o1000) !== 0; // there, only its owner can move an entry
  if ((uid !== user && uid !== 0) || ((mode & 0o022) !== 0 && !isSticky)) return false;
  return path === dirname(path) || isOutOfReach(dirname(path), user);
}

/** V8 checks neither that the code is undamaged nor that the source is the same, apart from its length. */
function checksum(source: Uint8Array, code: Uint8Array): Buffer {
  const { crc32 } = process.getBuiltinModule('node:zlib');
  const bytes = Buffer.alloc(checksumBytes);
  bytes.writeUInt32LE(crc32(code, crc32(source)));
  return bytes;
}

function readKept(path: string, source: Uint8Array): Buffer | undefined {
  try {
    const bytes = readFileSync(path);
    const code = bytes.subarray(0, -checksumBytes);
    return checksum(source, code).equals(bytes.subarray(-checksumBytes)) ? code : undefined;
  } catch {
    return undefined;
  }
}

function keep(path: string, source: Uint8Array, script: Script): void {
  const tag = path.slice(path.lastIndexOf('-') + 1);
  const own = `${path}.${process.pid}`;
  try {
    restoreYoungGeneration();
    if (versionTag() !== tag) return;
    const code = script.createCachedData();
    writeFileSync(own, Buffer.concat([code, checksum(source, code)]), { mode: 0o600, flag: 'wx' });
    renameSync(own, path);
    removeOld(dirname(path));
  } catch {
    rmSync(own, { force: true });
  }
}

function removeOld(folder: string): void {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (statSync(path).mtimeMs < Date.now() - keptMs) rmSync(path, { force: true });
  }
}
