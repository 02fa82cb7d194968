/* What every test program includes. */
#ifndef TEST_H
#define TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/err.h"
#include "scratch.h"

/* Of a long row of cases every so many-th is looked at: where a sanitizer makes each ten times as long, memory is what
 * is looked at, and all of the code is reached by a few. */
#ifdef __SANITIZE_ADDRESS__
#define EACH 10
#else
#define EACH 1
#endif

/* Fails with both texts when `msg` does not contain `part`. */
#define assert_contains(msg, part)                                                                                     \
    do {                                                                                                               \
        if (!strstr((msg), (part))) fail_msg("'%s' does not contain '%s'", (msg), (part));                             \
    } while (0)

#endif
