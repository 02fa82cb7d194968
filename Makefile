# The only front door. `make run` and `make test` install what is missing, build and do their job; `make help` lists all.
#
#   build/vram-llm            the program                build/asan/…   the same under ASan + UBSan
#   build/obj/…               objects, one per source    build/tests/…  test programs, stubs, stretched model headers

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VERSION := 0.1.0
B       ?= build
PREFIX  ?= /usr/local
SECONDS_FUZZ ?= 60

WARN := -Wall -Wextra -Wshadow -Wconversion -Wformat=2 -Wvla -Wmissing-prototypes -Wstrict-prototypes $(if $(CI),-Werror)
# A struct vr_machine has no place on a stack; a sanitizer makes frames larger.
FRAME = $(if $(EXTRA),,-Wframe-larger-than=131072)
CFLAGS ?= -O2 -g
ALL_CFLAGS = -std=gnu11 $(WARN) -D_GNU_SOURCE -DVR_VERSION='"$(VERSION)"' -Isrc -MMD -MP $(CFLAGS) $(EXTRA)
LIBS := -ljansson -levent_openssl -levent -lssl -lcrypto -ldl -lm

# The engine: llama.cpp, pinned by tools/engine.lock and brought by tools/engine-fetch. Only src/engine sees its headers.
ENGINE_AT   := build/engine
ENGINE_INC  := $(addprefix -isystem $(ENGINE_AT)/src/,include ggml/include ggml/src src common tools/mtmd vendor)
# Pictures (tools/mtmd) are not among the prebuilt libraries: compiled once from the engine's source, linked in.
MTMD        := build/engine/mtmd/libmtmd.a
ENGINE_LIBS := $(MTMD) -L$(ENGINE_AT)/lib -lllama-common -lllama -lggml -lggml-base -lm -Wl,-rpath,$(abspath $(ENGINE_AT)/lib)

ROOMS   := base gguf hw memory plan engine fit calibrate server cli
SOURCES := $(wildcard $(ROOMS:%=src/%/*.c) $(ROOMS:%=src/%/*/*.c))
OBJECTS := $(SOURCES:src/%.c=$(B)/obj/%.o) $(B)/obj/engine/llama/bridge.o
PURE    := $(wildcard $(addprefix src/,base/*.c gguf/*.c hw/*.c memory/*.c plan/*.c))
LIBRARY := $(B)/libvram.a
UNITS   := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FORMAT  := $(wildcard src/*/*.[ch] src/*/*/*.[ch] src/*/*/*.cpp tests/*/*.[ch] tests/*/*.cpp tests/e2e/engine/*.[ch] bench/*.[ch])

, := ,
# Short lines; V=1 shows the commands.
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $(patsubst $(B)/%,%,$@))

.PHONY: help run test all check check-unit check-layers check-fmt check-golden check-oracle check-e2e check-clients check-browser oracle asan fuzz bench bench-serve bench-front fmt install dist check-dist clean setup
.DEFAULT_GOAL := all

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

run: ## install what is missing, build, and serve on http://127.0.0.1:8080: the small model that ships, or MODEL=FILE
	@tools/setup build
	@tools/engine-fetch
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@echo; echo "Open http://127.0.0.1:8080 in a browser. Ctrl-C stops it; MODEL=FILE.gguf serves a model of yours."; echo; \
	exec $(B)/vram-llm serve $(if $(MODEL),"$(MODEL)")

test: ## install what is missing, build, run every test, then again under ASan + UBSan, then fuzz
	@tools/setup test
	@tools/engine-fetch
	@$(MAKE) --no-print-directory check-layers check-fmt
	@$(MAKE) --no-print-directory -j$$(nproc) all tests dist $(HELPERS) $(FUZZERS) $(B)/oracle/oracle $(ORACLE_STUBS)
	@$(MAKE) --no-print-directory -j$$(nproc) $(SANITIZED) all tests $(HELPERS_ASAN)
	@tests/all "$(B)" build/asan $(VERSION) $(SECONDS_FUZZ) >"$(B)/tests/jobs"
	@exec env TIMES=12 tests/parallel <"$(B)/tests/jobs"

setup:
	@tools/setup test

all: $(B)/vram-llm

# --- the program ---

$(B)/vram-llm: $(B)/obj/cli/main.o $(LIBRARY)
	$(call say,LINK)
	$(Q)$(CXX) $(EXTRA) -o $@ $^ $(LIBS) $(ENGINE_LIBS)

$(LIBRARY): $(filter-out %/cli/main.o,$(OBJECTS))
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CFLAGS) $(FRAME) -c -o $@ $<

# The page's files are part of the program as they are: src/server/http/page.c.
$(B)/obj/server/http/page.o: $(wildcard web/*)

$(B)/obj/engine/%.o: ALL_CFLAGS += $(ENGINE_INC)
$(B)/obj/engine/%.o: | $(ENGINE_AT)/which

$(B)/obj/engine/llama/bridge.o: src/engine/llama/bridge.cpp | $(ENGINE_AT)/which
	@mkdir -p $(@D)
	$(call say,C++)
	$(Q)$(CXX) -std=c++17 -Wall -Wextra $(if $(CI),-Werror) -D_GNU_SOURCE -Isrc $(ENGINE_INC) -MMD -MP $(CFLAGS) $(EXTRA) -c -o $@ $<

$(ENGINE_AT)/which: tools/engine.lock tools/engine-fetch
	@tools/engine-fetch
	@touch $@

$(LIBRARY) $(B)/tests/tiny-model $(B)/tests/tiny-mmproj: | $(MTMD)
$(MTMD): tools/mtmd.mk tools/engine.lock | $(ENGINE_AT)/which
	@$(MAKE) --no-print-directory -f tools/mtmd.mk AT=$(ENGINE_AT)/src OUT=$(@D)
	@touch $@

# --- tests ---

.PHONY: tests
tests: $(UNITS) $(B)/tests/libnvml-stub.so

$(B)/tests/test_%: tests/unit/test_%.c $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,TEST)
	$(Q)$(CC) $(ALL_CFLAGS) -Itests/unit $(ENGINE_INC) -Wno-missing-field-initializers $(LINK_$(@F)) -o $@ $< $(LIBRARY) -lcmocka $(LIBS) $(ENGINE_LIBS) -lstdc++

# Allocation failures are injected at the linker's hands: no trace of it is left in the program.
LINK_test_gguf_nomem := $(addprefix -Wl$(,)--wrap=,malloc calloc realloc strdup strndup json_loadb)
LINK_test_fit_nomem = $(LINK_test_gguf_nomem)
LINK_test_server_nomem = $(LINK_test_gguf_nomem)

$(B)/tests/libnvml-stub.so: tests/stubs/nvml.c
	@mkdir -p $(@D)
	$(call say,STUB)
	$(Q)$(CC) $(ALL_CFLAGS) -fPIC -shared -o $@ $<

check: check-unit check-golden

# What tests start beside the program itself.
HELPERS      := $(addprefix $(B)/tests/,libnvml-stub.so fake-engine tiny-model tiny-mmproj see engine-main engine-client)
HELPERS_ASAN := $(addprefix build/asan/tests/,libnvml-stub.so fake-engine tiny-mmproj)

# The server as a program: over a stub of its engine (API, faults, costs), and as real clients use it.
$(B)/tests/fake-engine: tests/stubs/fake-engine.c $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,STUB)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $< $(LIBRARY) $(LIBS) $(ENGINE_LIBS) -lstdc++

$(B)/tests/tiny-model $(B)/tests/tiny-mmproj $(B)/tests/random-fill: $(B)/tests/%: tests/tools/%.c
	@mkdir -p $(@D)
	$(call say,TOOL)
	$(Q)$(CC) $(ALL_CFLAGS) $(ENGINE_INC) -o $@ $< $(LIBS) $(ENGINE_LIBS)

$(B)/tests/see: tests/tools/see.c | $(MTMD)
	@mkdir -p $(@D)
	$(call say,TOOL)
	$(Q)$(CC) $(ALL_CFLAGS) $(ENGINE_INC) -o $@ $< $(LIBS) $(ENGINE_LIBS) -lstdc++

$(B)/tests/engine-main: tests/tools/engine-main.c $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,TOOL)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $< $(LIBRARY) $(LIBS) $(ENGINE_LIBS) -lstdc++

$(B)/tests/engine-client: $(wildcard tests/e2e/engine/*.[ch]) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,TEST)
	$(Q)$(CC) $(ALL_CFLAGS) -Itests/unit -Wno-missing-field-initializers -o $@ $(filter %.c,$^) $(LIBRARY) -lcmocka $(LIBS) \
	  $(ENGINE_LIBS) -lstdc++

check-e2e: $(B)/vram-llm $(HELPERS)
	@tests/run "$(B)" $(B)/tests/engine-client
	@tests/e2e/run "$(B)"
	@tests/bench.sh "$(B)"

check-clients: $(B)/vram-llm $(B)/tests/fake-engine
	@tests/clients/run "$(B)"

# The page, in a real browser.
check-browser: $(B)/vram-llm $(B)/tests/fake-engine $(B)/tests/tiny-model $(B)/tests/tiny-mmproj $(B)/tests/libnvml-stub.so
	@tests/browser/run "$(B)"

check-oracle:
	@$(MAKE) --no-print-directory -j$$(nproc) $(B)/oracle/oracle $(ORACLE_STUBS)
	@$(MAKE) --no-print-directory oracle CASES=240

check-unit: tests $(B)/vram-llm
	@tests/run "$(B)" $(UNITS)

check-golden: $(B)/vram-llm $(B)/tests/libnvml-stub.so $(B)/tests/tiny-mmproj
	@tests/golden/run "$(B)"

check-layers:
	@tools/check-layers src
	@tests/layers.sh
	@tests/engine_fetch.sh

check-fmt:
	@clang-format --dry-run -Werror $(FORMAT)

# and the server over a stub of its engine: requests, faults, signals; what it costs is measured without sanitizers
SANITIZED := B=build/asan CFLAGS="-O1 -g" EXTRA="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
asan: ## the same tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory -j$$(nproc) $(SANITIZED) all tests $(HELPERS_ASAN)
	@$(MAKE) --no-print-directory $(SANITIZED) check
	@tests/e2e/run build/asan http api faults

# --- the oracle: the real CUDA host code over a stub runtime says what our virtual GPUs must say ---

ORACLE_STUBS := $(addprefix $(B)/oracle/lib,cudart.so.13 cublas.so.13 cuda.so.1)

$(B)/oracle/lib%: tests/oracle/stub_cudart.c tests/oracle/stub_cublas.c tests/oracle/stub_cuda.c
	@mkdir -p $(@D)
	$(call say,STUB)
	$(Q)$(CC) $(ALL_CFLAGS) -fPIC -shared -fvisibility=hidden -Wl,-soname,$(@F) -Wl,--default-symver \
	  tests/oracle/stub_$(firstword $(subst ., ,$*)).c -o $@

$(B)/oracle/oracle: tests/oracle/oracle.cpp tests/oracle/oracle.h $(B)/oracle/cases.o $(B)/oracle/models.o $(B)/oracle/vgpu.o $(LIBRARY)
	$(call say,LINK)
	$(Q)$(CXX) -std=c++17 -Wall -Wextra $(if $(CI),-Werror) -D_GNU_SOURCE -Isrc $(ENGINE_INC) $(CFLAGS) $(EXTRA) \
	  $(filter-out %.h,$^) -o $@ $(LIBS) $(ENGINE_LIBS)

$(B)/oracle/%.o: tests/oracle/%.c tests/oracle/oracle.h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CFLAGS) $(ENGINE_INC) -Itests/oracle -c -o $@ $<

CASES ?= 800
oracle: $(B)/oracle/oracle $(ORACLE_STUBS) ## compare CASES (800) placements with the real CUDA host code, to the byte
	@tests/oracle/run "$(B)" $(CASES)

# --- fuzzing: libFuzzer comes with clang ---

FUZZ_FLAGS := -std=gnu11 -D_GNU_SOURCE -DVR_VERSION='"fuzz"' -Isrc -MMD -MP -O1 -g -fno-sanitize-recover=all

# Parsers of requests, grammars, pictures and frames are fuzzed without the rest of their rooms.
FUZZED_ALONG := $(wildcard src/server/http/http.c src/server/http/auth.c src/server/api/body.c) \
                $(wildcard src/engine/wire/*.c)
FUZZ_OBJECTS := $(patsubst src/%.c,$(B)/fuzz/obj/%.o,$(PURE) $(FUZZED_ALONG))
$(B)/fuzz/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(call say,FUZZ)
	$(Q)clang $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link,address,undefined -c -o $@ $<

$(FUZZERS): $(B)/fuzz/%: tests/fuzz/%.c $(FUZZ_OBJECTS)
	@mkdir -p $(@D)
	$(call say,FUZZ)
	$(Q)clang $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined -o $@ $^ $(LIBS)

fuzz: $(FUZZERS) ## fuzz every parser for SECONDS_FUZZ seconds (60)
	@tests/fuzz/run "$(B)" $(SECONDS_FUZZ) $(FUZZERS)

# --- the rest ---

bench-front: $(B)/vram-llm $(B)/tests/fake-engine ## what the front takes of a core, and how fast it answers among many streams
	@tools/stretch "$(B)/models" devstral-small-24b
	@VR_BUILD="$(abspath $(B))" VR_MODEL="$(abspath $(B))/models/Devstral-Small-2505-Q5_K_M.gguf" "$$(tools/node)" bench/front.mjs

bench-serve: $(B)/vram-llm $(B)/tests/tiny-model ## serving beside llama.cpp's own server, which is built for it (a few minutes)
	@bench/serve "$(B)" $(ROUNDS)

bench: all $(B)/bench/timeit $(B)/bench/make-vocab $(B)/bench/probe $(B)/bench/plan ## measure, as ratios in one run
	@bench/analyze "$(B)"
	@tools/stretch "$(B)/models"
	@$(B)/bench/probe "$(B)/models" tests/fixtures/rigs "$(B)/bench"
	@$(B)/bench/plan "$(B)/models" tests/fixtures/rigs "$(B)/bench"

$(B)/bench/%: bench/%.c $(wildcard bench/*.h) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,BENCH)
	$(Q)$(CC) $(ALL_CFLAGS) -Itests/unit $(ENGINE_INC) -o $@ $< $(LIBRARY) -lcmocka $(LIBS) $(ENGINE_LIBS) -lstdc++

fmt: ## format the sources
	clang-format -i $(FORMAT)

install: all ## install under PREFIX (/usr/local)
	install -D -m 755 $(B)/vram-llm "$(DESTDIR)$(PREFIX)/bin/vram-llm"
	install -D -m 644 models/demo.gguf "$(DESTDIR)$(PREFIX)/share/vram-llm/demo.gguf"

# --- the tarball: any x86-64 Linux with glibc 2.34 or newer, no package needed ---

COMPAT := arc4random arc4random_buf _dl_find_object
dist: $(B)/dist/vram-llm $(B)/dist/glibc ## a tarball that runs on any x86-64 Linux with glibc >= 2.34
	@tools/dist/make "$(B)" $(VERSION)

$(B)/dist/vram-llm: $(B)/obj/cli/main.o $(LIBRARY) tools/dist/compat.c | $(MTMD)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $(@D)/compat.o tools/dist/compat.c
	$(Q)$(CXX) $(EXTRA) -o $@ $(B)/obj/cli/main.o $(LIBRARY) $(@D)/compat.o $(COMPAT:%=-Wl,--export-dynamic-symbol=%) \
	  -Wl,-Bstatic -ljansson -levent_openssl -levent -lssl -lcrypto -Wl,-Bdynamic -ldl -lm \
	  $(filter-out -Wl%,$(ENGINE_LIBS)) -Wl,-rpath,'$$ORIGIN/../lib'

$(B)/dist/glibc: tools/dist/glibc.c
	@mkdir -p $(@D)
	$(call say,TOOL)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $<

check-dist: dist $(B)/tests/tiny-model
	@tests/dist.sh "$(B)" $(VERSION)

clean: ## remove what was built
	rm -rf build

-include $(OBJECTS:.o=.d) $(FUZZ_OBJECTS:.o=.d) $(UNITS:%=%.d) $(wildcard $(B)/oracle/*.d)
