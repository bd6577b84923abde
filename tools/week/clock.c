/*
 * A settable wall clock, preloaded into the stack and the plant: it adds an offset from a shared file (a
 * signed 64-bit number of nanoseconds) to the time of day. Monotonic clocks are not changed, so timers and
 * sockets run in real time while the date jumps. libfaketime cannot be used: it allocates memory at its first
 * call, the runtime's allocator (tcmalloc) makes that call while it starts (poll), and the process waits for
 * itself forever.
 *
 *   cc -O2 -shared -fPIC -o clock.so clock.c
 *   SITEWIRE_WEEK_CLOCK=<file> LD_PRELOAD=<clock.so> <program>
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile int64_t *ahead;

__attribute__((constructor)) static void open_clock(void) {
  const char *path = getenv("SITEWIRE_WEEK_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *page = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) ahead = page;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int code = (int)syscall(SYS_clock_gettime, clock, now);
  if (code != 0 || ahead == NULL) return code;
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return code;
  int64_t at = now->tv_sec * SECOND + now->tv_nsec + *ahead;
  now->tv_sec = at / SECOND;
  now->tv_nsec = at % SECOND;
  return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec exact;
  int code = clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return code;
}

time_t time(time_t *at) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (at) *at = exact.tv_sec;
  return exact.tv_sec;
}
