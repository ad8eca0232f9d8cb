/*
 * Preloaded into the processes of a service: keeps what a disk is sure to have after a power cut.
 * Each sync of a file below POWER_ROOT leaves its bytes in POWER_LOG, each sync of a folder the
 * names in it, in a file <time>.<f or d>.<inode>.<birth>.<thread>: time of CLOCK_MONOTONIC in ns,
 * before the call returns.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what) {
  perror(what);
  abort();
}

/* An inode is used again for another file, so the time of birth goes with it. */
static void identify(int at, const char *name, struct statx *found) {
  const int flags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;
  if (statx(at, name, flags, STATX_BASIC_STATS | STATX_BTIME, found) != 0) found->stx_ino = 0;
}

static long long birth(const struct statx *file) {
  return file->stx_btime.tv_sec * 1000000000LL + file->stx_btime.tv_nsec;
}

static void copyBytes(const char *from, FILE *to) {
  int file = open(from, O_RDONLY | O_CLOEXEC);
  if (file < 0) fail("power-loss: open");
  const size_t most = 1 << 16;
  char *piece = malloc(most);
  if (piece == NULL) fail("power-loss: malloc");
  for (ssize_t length; (length = read(file, piece, most)) > 0;)
    if (fwrite(piece, 1, length, to) != (size_t)length) fail("power-loss: write");
  free(piece);
  close(file);
}

static void listNames(const char *from, FILE *to) {
  DIR *folder = opendir(from);
  if (folder == NULL) fail("power-loss: opendir");
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    struct statx found;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    identify(dirfd(folder), entry->d_name, &found);
    if (found.stx_ino == 0 || !(S_ISREG(found.stx_mode) || S_ISDIR(found.stx_mode))) continue;
    fprintf(to, "%c %llu %lld %s\n", S_ISDIR(found.stx_mode) ? 'd' : 'f', (unsigned long long)found.stx_ino,
            birth(&found), entry->d_name);
  }
  closedir(folder);
}

static void keep(int file) {
  const char *root = getenv("POWER_ROOT"), *log = getenv("POWER_LOG");
  char link[64], path[4096], draft[4200], name[4300];
  if (root == NULL || log == NULL) return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return;
  path[length] = 0;
  size_t rootLength = strlen(root);
  if (strncmp(path, root, rootLength) != 0 || (path[rootLength] != 0 && path[rootLength] != '/')) return;
  struct statx found;
  identify(file, "", &found);
  if (found.stx_ino == 0) return;
  snprintf(draft, sizeof draft, "%s/.%d", log, gettid());
  FILE *to = fopen(draft, "w");
  if (to == NULL) fail("power-loss: create");
  (S_ISDIR(found.stx_mode) ? listNames : copyBytes)(link, to);
  if (fclose(to) != 0) fail("power-loss: close");
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  snprintf(name, sizeof name, "%s/%lld.%c.%llu.%lld.%d", log, now.tv_sec * 1000000000LL + now.tv_nsec,
           S_ISDIR(found.stx_mode) ? 'd' : 'f', (unsigned long long)found.stx_ino, birth(&found), gettid());
  if (rename(draft, name) != 0) fail("power-loss: rename");
}

static int synced(const char *call, int file) {
  int (*next)(int) = dlsym(RTLD_NEXT, call);
  int result = next(file);
  int saved = errno;
  if (result == 0) keep(file);
  errno = saved;
  return result;
}

int fsync(int file) { return synced("fsync", file); }
int fdatasync(int file) { return synced("fdatasync", file); }
