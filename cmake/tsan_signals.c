/*
 * Part of programs that are built with ThreadSanitizer, and of no others.
 *
 * Its runtime keeps a signal that arrives between two blocking calls until the next one, in memory
 * that a thread makes for itself at its first blocking call. A signal that arrives while that is
 * being made is kept in memory of its own, which is then forgotten, and the signal with it
 * (libtsan of gcc 12, SigCtx()). In the gateway the first such call is the loop's epoll_wait(): a
 * TERM right after "ready" could be lost. So the first one is made here, before there are signals.
 */
#include <time.h>

__attribute__((constructor)) static void make_a_blocking_call(void)
{
    const struct timespec no_time = {0};
    nanosleep(&no_time, NULL);
}
