# What Debian compiles its packages with against memory errors (dpkg-buildflags, hardening=+all), for the program and for what
# is compiled into it. bench/plan takes as long with them as without.
#   HARDEN_CFLAGS, HARDEN_LDFLAGS
fortify := $(shell echo '\#include <features.h>' | $(CC) -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -Werror -E - >/dev/null 2>&1 && echo 3 || echo 2)
HARDEN_CFLAGS := $(if $(filter -O0,$(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(fortify)) -fstack-protector-strong -fstack-clash-protection -fPIE \
                 -Werror=format-security $(if $(filter x86_64%,$(shell $(CC) -dumpmachine)),-fcf-protection)
HARDEN_LDFLAGS := -pie -Wl,-z,relro,-z,now,-z,noexecstack
