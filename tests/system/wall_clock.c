/* For wall_clock_test.py, preloaded into a program: a wall clock that steps by years with every look at it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/time.h>
#include <time.h>

static const long kStep = 1000L * 24 * 3600;

static long NextOffset(void) {
  static atomic_uint looks;
  return ((long)(atomic_fetch_add(&looks, 1) % 7) - 3) * kStep;
}

int clock_gettime(clockid_t id, struct timespec* now) {
  static int (*_Atomic real)(clockid_t, struct timespec*);
  int (*call)(clockid_t, struct timespec*) = atomic_load(&real);
  if (call == NULL) {
    *(void**)&call = dlsym(RTLD_NEXT, "clock_gettime");
    atomic_store(&real, call);
  }
  const int result = call(id, now);
  if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += NextOffset();
  return result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  struct timespec instant;
  const int result = clock_gettime(CLOCK_REALTIME, &instant);
  now->tv_sec = instant.tv_sec;
  now->tv_usec = instant.tv_nsec / 1000;
  return result;
}

time_t time(time_t* into) {
  struct timespec instant;
  clock_gettime(CLOCK_REALTIME, &instant);
  if (into != NULL) *into = instant.tv_sec;
  return instant.tv_sec;
}
