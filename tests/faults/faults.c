/* Faults at the changes that a process makes below one folder, for LD_PRELOAD: Python's calls and TensorFlow's alike.

   Each change (an open for writing, a write, a rename, ...) is a step. At step number `at` something happens once:
   the process is killed, gets SIGTERM, finds the disk full from then on, or the clock jumps. For "unreadable" the steps
   are opens for reading, and the one at `at` fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { NONE, KILL, TERM, FULL, CLOCK, UNREADABLE };

static char root[4096];
static int kind;
static long at;
static volatile int fired;
static volatile long *steps; /* shared with the process that forked this one */

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

void fault_arm(const char *folder, int what, long step) {
    strncpy(root, folder, sizeof root - 1);
    kind = what;
    at = step;
    fired = 0;
    *steps = 0;
}

long fault_steps(void) { return *steps; }

__attribute__((constructor)) static void begin(void) {
    steps = mmap(NULL, sizeof *steps, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *spec = getenv("FAULT_OF_WORKERS"); /* the step, a space, the folder: kill a process that is spawned */
    if (spec && strchr(spec, ' ')) fault_arm(strchr(spec, ' ') + 1, KILL, atol(spec));
}

static int below(int folder, const char *path) {
    char full[8192] = "";
    if (!root[0] || !path) return 0;
    if (path[0] != '/') {
        char link[64];
        ssize_t length;
        if (folder == AT_FDCWD) {
            if (!getcwd(full, 4096)) return 0;
            length = strlen(full);
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            length = readlink(link, full, 4095);
            if (length < 0) return 0;
        }
        full[length] = '/';
        full[length + 1] = 0;
    }
    strncat(full, path, sizeof full - strlen(full) - 1);
    size_t size = strlen(root);
    return strncmp(full, root, size) == 0 && (full[size] == '/' || full[size] == 0);
}

static int open_below(int fd) { return below(fd, ""); }

/* The number of this step is the one: true once. */
static int due(void) { return __atomic_add_fetch(steps, 1, __ATOMIC_SEQ_CST) == at && kind != NONE; }

/* An error number for a change that must fail, or 0. `half` runs before the process is killed. */
static int change(int takes_space) {
    if (kind == UNREADABLE) return 0;
    if (due()) {
        fired = 1;
        if (kind == KILL) kill(getpid(), SIGKILL);
        if (kind == TERM) kill(getpid(), SIGTERM);
    }
    return kind == FULL && fired && takes_space ? ENOSPC : 0;
}

/* How much of a write gets through: all of it, or half of the one at which the process is killed. */
static size_t through(size_t size) { return kind == KILL && *steps + 1 == at ? size / 2 : size; }

static int opening(int folder, const char *path, int flags) {
    if (!below(folder, path)) return 0;
    if (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) return change(flags & O_CREAT);
    if (kind == UNREADABLE && !(flags & O_DIRECTORY) && due()) {
        fired = 1;
        return EACCES;
    }
    return 0;
}

#define REFUSE(error, result) do { int e = (error); if (e) { errno = e; return result; } } while (0)
#define MODE(last) mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list a; va_start(a, last); mode = va_arg(a, mode_t); va_end(a); }

int open(const char *path, int flags, ...) { MODE(flags) REFUSE(opening(AT_FDCWD, path, flags), -1); return REAL(open)(path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) REFUSE(opening(AT_FDCWD, path, flags), -1); return REAL(open64)(path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags) REFUSE(opening(folder, path, flags), -1); return REAL(openat)(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags) REFUSE(opening(folder, path, flags), -1); return REAL(openat64)(folder, path, flags, mode); }
static int flags_of(const char *mode) { return mode[0] == 'r' && !strchr(mode, '+') ? O_RDONLY : O_WRONLY | O_CREAT; }
FILE *fopen(const char *path, const char *mode) { REFUSE(opening(AT_FDCWD, path, flags_of(mode)), NULL); return REAL(fopen)(path, mode); }
FILE *fopen64(const char *path, const char *mode) { REFUSE(opening(AT_FDCWD, path, flags_of(mode)), NULL); return REAL(fopen64)(path, mode); }

ssize_t write(int fd, const void *data, size_t size) {
    if (!open_below(fd)) return REAL(write)(fd, data, size);
    if (through(size) < size && REAL(write)(fd, data, through(size)) < 0) return -1;
    REFUSE(change(1), -1);
    return REAL(write)(fd, data, size);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    if (!open_below(fd)) return REAL(pwrite64)(fd, data, size, offset);
    if (through(size) < size && REAL(pwrite64)(fd, data, through(size), offset) < 0) return -1;
    REFUSE(change(1), -1);
    return REAL(pwrite64)(fd, data, size, offset);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return pwrite64(fd, data, size, offset); }
size_t fwrite(const void *data, size_t size, size_t count, FILE *file) {
    if (!open_below(fileno(file))) return REAL(fwrite)(data, size, count, file);
    if (through(count) < count) { REAL(fwrite)(data, size, through(count), file); fflush(file); }
    REFUSE(change(1), 0);
    return REAL(fwrite)(data, size, count, file);
}
ssize_t sendfile64(int to, int from, off64_t *offset, size_t size) {
    ssize_t (*send)(int, int, off64_t *, size_t) = real("sendfile64");
    if (open_below(to)) REFUSE(change(1), -1);
    return send(to, from, offset, size);
}
ssize_t sendfile(int to, int from, off_t *offset, size_t size) { return sendfile64(to, from, offset, size); }
ssize_t copy_file_range(int from, off64_t *a, int to, off64_t *b, size_t size, unsigned flags) {
    if (open_below(to)) REFUSE(change(1), -1);
    return REAL(copy_file_range)(from, a, to, b, size, flags);
}

int rename(const char *from, const char *to) { if (below(AT_FDCWD, to)) REFUSE(change(0), -1); return REAL(rename)(from, to); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { if (below(b, to)) REFUSE(change(0), -1); return REAL(renameat2)(a, from, b, to, flags); }
int link(const char *from, const char *to) { if (below(AT_FDCWD, to)) REFUSE(change(1), -1); return REAL(link)(from, to); }
int symlink(const char *from, const char *to) { if (below(AT_FDCWD, to)) REFUSE(change(1), -1); return REAL(symlink)(from, to); }
int unlink(const char *path) { if (below(AT_FDCWD, path)) REFUSE(change(0), -1); return REAL(unlink)(path); }
int unlinkat(int folder, const char *path, int flags) { if (below(folder, path)) REFUSE(change(0), -1); return REAL(unlinkat)(folder, path, flags); }
int mkdir(const char *path, mode_t mode) { if (below(AT_FDCWD, path)) REFUSE(change(1), -1); return REAL(mkdir)(path, mode); }
int rmdir(const char *path) { if (below(AT_FDCWD, path)) REFUSE(change(0), -1); return REAL(rmdir)(path); }

/* The clock jumps a year back if the step is odd, and forward if it is even. Only Python sees that: a thread of a library
   that waits until a time of this clock would wait a year, because the kernel's clock does not jump. */
static time_t jump(void *caller) {
    Dl_info library;
    if (kind != CLOCK || !fired || !dladdr(caller, &library) || !strstr(library.dli_fname, "python")) return 0;
    if (strstr(library.dli_fname, "site-packages")) return 0;
    return (at % 2 ? -1 : 1) * 31536000L;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = REAL(clock_gettime)(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += jump(__builtin_return_address(0));
    return result;
}
int gettimeofday(struct timeval *now, void *zone) {
    int (*get)(struct timeval *, void *) = real("gettimeofday");
    int result = get(now, zone);
    now->tv_sec += jump(__builtin_return_address(0));
    return result;
}
