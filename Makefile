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
# Only main.c knows it (--version), so that another commit compiles one file and links one program again.
COMMIT  := $(shell tools/commit)

WARN := -Wall -Wextra -Wshadow -Wconversion -Wformat=2 -Wvla -Wmissing-prototypes -Wstrict-prototypes $(if $(CI),-Werror)
# A struct vr_machine has no place on a stack; a sanitizer makes frames larger.
FRAME = $(if $(EXTRA),,-Wframe-larger-than=131072)
CFLAGS ?= -O2 -g
# Debian's hardening flags, but for sanitizers, which check more. FORTIFY 3 where the compiler and glibc know it.
include tools/harden.mk
HARDEN := $(if $(EXTRA),,$(HARDEN_CFLAGS))
ALL_CFLAGS = -std=gnu11 $(WARN) -D_GNU_SOURCE -DVR_VERSION='"$(VERSION)"' -Isrc -MMD -MP $(CFLAGS) $(HARDEN) $(EXTRA)
LIBS := -ljansson -levent_openssl -levent -lssl -lcrypto -lseccomp -ldl -lm

# The engine: llama.cpp, pinned by tools/engine.lock and brought by tools/engine-fetch. Only src/engine sees its headers.
ENGINE_AT   ?= build/engine
ENGINE_INC  := $(addprefix -isystem $(ENGINE_AT)/src/,include ggml/include ggml/src src common tools/mtmd vendor)
# Pictures (tools/mtmd) are not among the prebuilt libraries: compiled once from the engine's source, linked in.
MTMD        := $(ENGINE_AT)/mtmd/libmtmd.a
# The same for computing on other machines.
RPC         := $(ENGINE_AT)/rpc/librpc.a
ENGINE_LIBS := $(MTMD) $(RPC) -L$(ENGINE_AT)/lib -lllama-common -lllama -lggml -lggml-base -lm -Wl,-rpath,$(abspath $(ENGINE_AT)/lib)

ROOMS   := base gguf hw tunnel catalog remote memory plan engine fit calibrate node server cli
SOURCES := $(wildcard $(ROOMS:%=src/%/*.c) $(ROOMS:%=src/%/*/*.c))
OBJECTS := $(SOURCES:src/%.c=$(B)/obj/%.o) $(B)/obj/engine/llama/bridge.o $(B)/obj/engine/llama/bridge_lora.o $(B)/obj/engine/llama/bridge_media.o $(B)/obj/engine/llama/bridge_sound.o $(B)/obj/engine/llama/bridge_tools.o $(B)/obj/engine/llama/bridge_nextn.o
PURE    := $(wildcard $(addprefix src/,base/*.c gguf/*.c hw/*.c memory/*.c plan/*.c))
LIBRARY := $(B)/libvram.a
UNITS   := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FORMAT  := $(wildcard src/*/*.[ch] src/*/*/*.[ch] src/*/*/*.cpp tests/*/*.[ch] tests/*/*.cpp tests/e2e/engine/*.[ch] bench/*.[ch])

, := ,
# Short lines; V=1 shows the commands.
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $(patsubst $(B)/%,%,$@))

.PHONY: help run test all check check-unit check-layers check-fmt check-golden check-published check-oracle check-e2e check-clients check-browser test-llama-server test-agents oracle asan fuzz bench bench-serve bench-spec train-mtp bench-front bench-attack bench-hair bench-agents bench-edits bench-pool bench-beside bench-pull bench-nodes fmt install dist deb container aarch64 docs docs-figures check-dist check-deb check-container check-aarch64 clean setup
.DEFAULT_GOAL := all

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

run: ## install what is missing, build, and serve on http://127.0.0.1:8080: the demo model, or MODEL=FILE
	@tools/setup build
	@tools/engine-fetch
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@echo; echo "Open http://127.0.0.1:$${VRAM_LLM_PORT:-8080} in a browser. Ctrl-C stops it; MODEL=FILE.gguf serves a model of yours, VRAM_LLM_PORT=8081 listens elsewhere."; echo; \
	exec $(B)/vram-llm serve $(if $(MODEL),"$(MODEL)")

test: ## install what is missing, build, run the test suite, much of it again under ASan + UBSan, and fuzz
	@tools/setup test
	@tools/engine-fetch
	@$(MAKE) --no-print-directory check-layers check-fmt
	@$(MAKE) --no-print-directory -j$$(nproc) all tests dist $(HELPERS) $(FUZZERS) $(B)/bench/beside $(B)/oracle/oracle $(ORACLE_STUBS)
	@$(MAKE) --no-print-directory -j$$(nproc) $(SANITIZED) all tests $(HELPERS_ASAN)
	@tests/all "$(B)" build/asan $(VERSION) $(if $(filter file,$(origin SECONDS_FUZZ)),10,$(SECONDS_FUZZ)) >"$(B)/tests/jobs"
	@exec env TIMES=12 tests/parallel <"$(B)/tests/jobs"

setup:
	@tools/setup test

all: $(B)/vram-llm

# --- the program ---

$(B)/vram-llm: $(B)/obj/cli/main.o $(LIBRARY)
	$(call say,LINK)
	$(Q)$(CXX) $(HARDEN_LDFLAGS) $(EXTRA) -o $@ $^ $(LIBS) $(ENGINE_LIBS)

$(LIBRARY): $(filter-out %/cli/main.o,$(OBJECTS))
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CFLAGS) $(FRAME) -c -o $@ $<

$(B)/obj/cli/main.o: ALL_CFLAGS += -DVR_COMMIT='"$(COMMIT)"'
$(B)/obj/cli/main.o: $(B)/commit
ifneq ($(COMMIT),$(file <$(B)/commit))
.PHONY: $(B)/commit
endif
$(B)/commit:
	@mkdir -p $(@D) && echo '$(COMMIT)' >$@

# The page's files are part of the program as they are: src/server/http/page.c.
$(B)/obj/server/http/page.o: $(wildcard web/*)

$(B)/obj/engine/%.o: ALL_CFLAGS += $(ENGINE_INC)
$(filter $(B)/obj/engine/%,$(OBJECTS)): | $(ENGINE_AT)/which

# With sanitizers gcc believes that parts of <regex> are used before they are set.
CXX_QUIET := $(if $(findstring -fsanitize,$(EXTRA)),-Wno-maybe-uninitialized)
$(B)/obj/%.o: src/%.cpp | $(ENGINE_AT)/which
	@mkdir -p $(@D)
	$(call say,C++)
	$(Q)$(CXX) -std=c++17 -Wall -Wextra $(CXX_QUIET) $(if $(CI),-Werror) -D_GNU_SOURCE -Isrc $(ENGINE_INC) -MMD -MP $(CFLAGS) $(HARDEN) $(EXTRA) -c -o $@ $<

$(ENGINE_AT)/which: tools/engine.lock tools/engine-fetch
	@tools/engine-fetch
	@touch $@

$(LIBRARY) $(B)/tests/tiny-model $(B)/tests/tiny-mmproj: | $(MTMD) $(RPC)
$(MTMD): tools/mtmd.mk tools/harden.mk tools/engine.lock | $(ENGINE_AT)/which
	@$(MAKE) --no-print-directory -f tools/mtmd.mk AT=$(ENGINE_AT)/src OUT=$(@D)
	@touch $@

$(RPC): tools/rpc.mk tools/harden.mk tools/engine.lock src/engine/llama/bridge_rpc.cpp src/engine/llama/bridge_rpc_file.h | $(ENGINE_AT)/which
	@$(MAKE) --no-print-directory -f tools/rpc.mk AT=$(ENGINE_AT)/src OUT=$(@D)
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
HELPERS      := $(addprefix $(B)/tests/,libnvml-stub.so fake-engine tiny-model tiny-mmproj see engine-main engine-client published)
ORACLE_STUBS := $(addprefix $(B)/oracle/lib,cudart.so.13 cublas.so.13 cudart.so.12 cublas.so.12 cuda.so.1)
HELPERS_ASAN := $(addprefix build/asan/tests/,libnvml-stub.so fake-engine tiny-model tiny-mmproj)

# The server as a program: over a stub of its engine (API, faults, costs), and as real clients use it.
$(B)/tests/fake-engine: tests/stubs/fake-engine.c $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,STUB)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $< $(LIBRARY) $(LIBS) $(ENGINE_LIBS) -lstdc++

$(B)/tests/tiny-model $(B)/tests/tiny-mmproj $(B)/tests/random-fill: $(B)/tests/%: tests/tools/%.c
	@mkdir -p $(@D)
	$(call say,TOOL)
	$(Q)$(CC) $(ALL_CFLAGS) $(ENGINE_INC) -o $@ $< $(LIBS) $(ENGINE_LIBS)

$(B)/tests/see: tests/tools/see.c | $(MTMD) $(RPC)
	@mkdir -p $(@D)
	$(call say,TOOL)
	$(Q)$(CC) $(ALL_CFLAGS) $(ENGINE_INC) -o $@ $< $(LIBS) $(ENGINE_LIBS) -lstdc++

$(B)/tests/engine-main: tests/tools/engine-main.c $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,TOOL)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $< $(LIBRARY) $(LIBS) $(ENGINE_LIBS) -lstdc++

# Speeds that others published against our predictions, uncalibrated.
$(B)/tests/published: $(wildcard tests/published/*.[ch]) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,TEST)
	$(Q)$(CC) $(ALL_CFLAGS) -Itests/published -Wno-missing-field-initializers -o $@ $(filter %.c,$^) $(LIBRARY) $(LIBS) $(ENGINE_LIBS) -lstdc++

$(B)/tests/engine-client: $(wildcard tests/e2e/engine/*.[ch]) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,TEST)
	$(Q)$(CC) $(ALL_CFLAGS) -Itests/unit -Wno-missing-field-initializers -o $@ $(filter %.c,$^) $(LIBRARY) -lcmocka $(LIBS) \
	  $(ENGINE_LIBS) -lstdc++

check-e2e: $(B)/vram-llm $(HELPERS) $(ORACLE_STUBS)
	@tests/run "$(B)" $(B)/tests/engine-client
	@tests/e2e/run "$(B)"
	@tests/bench.sh "$(B)"

check-clients: $(B)/vram-llm $(B)/tests/fake-engine $(B)/tests/tiny-model
	@tests/clients/run "$(B)"

# Others' own tests and programs. They take minutes, or 1.3 GB of packages: no part of `make test`.
test-llama-server: $(B)/vram-llm $(B)/tests/tiny-model $(B)/tests/tiny-mmproj ## llama.cpp's own server tests, from the engine's source, against this server (some minutes)
	@tools/setup others
	@tests/llama-server/run "$(B)"

test-agents: $(B)/vram-llm $(B)/tests/fake-engine ## agents from npm (codex, claude-code, opencode, qwen-code) with a task each (1.3 GB of packages)
	@tests/agents/run "$(B)"

# The page, in a real browser.
check-browser: $(B)/vram-llm $(B)/tests/fake-engine $(B)/tests/tiny-model $(B)/tests/tiny-mmproj $(B)/tests/libnvml-stub.so
	@tests/browser/run "$(B)"

check-oracle:
	@$(MAKE) --no-print-directory -j$$(nproc) $(B)/oracle/oracle $(ORACLE_STUBS) $(B)/tests/tiny-model
	@$(MAKE) --no-print-directory oracle CASES=240 TENSOR_CASES=60 GUESSER_CASES=77

check-unit: tests $(B)/vram-llm
	@tests/run "$(B)" $(UNITS)

check-published: $(B)/tests/published
	@tests/published/run "$(B)"

check-golden: $(B)/vram-llm $(B)/tests/libnvml-stub.so $(B)/tests/tiny-mmproj
	@tests/golden/run "$(B)"

check-layers:
	@tools/check-layers src
	@tests/layers.sh
	@tests/engine_fetch.sh
	@tests/engine_upgrade.sh
	@tests/commit.sh

check-fmt:
	@clang-format --dry-run -Werror $(FORMAT)

# and the server over a stub of its engine: requests, faults, signals; what it costs is measured without sanitizers
SANITIZED := B=build/asan CFLAGS="-O1 -g" EXTRA="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
asan: ## the same tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory -j$$(nproc) $(SANITIZED) all tests $(HELPERS_ASAN)
	@$(MAKE) --no-print-directory $(SANITIZED) check
	@tests/e2e/run build/asan faults fleet fair http api responses messages ollama

# --- the oracle: the real CUDA host code over a stub runtime says what our virtual GPUs must say ---

$(B)/oracle/lib%: tests/oracle/stub_cudart.c tests/oracle/stub_cublas.c tests/oracle/stub_cuda.c
	@mkdir -p $(@D)
	$(call say,STUB)
	$(Q)$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) -fPIC -shared -fvisibility=hidden -Wl,-soname,$(@F) -Wl,--default-symver \
	  tests/oracle/stub_$(firstword $(subst ., ,$*)).c -o $@

$(B)/oracle/oracle: tests/oracle/oracle.cpp tests/oracle/oracle.h $(B)/oracle/cases.o $(B)/oracle/models.o $(B)/oracle/vgpu.o $(LIBRARY)
	$(call say,LINK)
	$(Q)$(CXX) -std=c++17 -Wall -Wextra $(CXX_QUIET) $(if $(CI),-Werror) -D_GNU_SOURCE -Isrc $(ENGINE_INC) $(CFLAGS) $(EXTRA) \
	  $(filter-out %.h,$^) -o $@ $(LIBS) $(ENGINE_LIBS)

$(B)/oracle/%.o: tests/oracle/%.c tests/oracle/oracle.h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CFLAGS) $(ENGINE_INC) -Itests/oracle -c -o $@ $<

CASES ?= 800
TENSOR_CASES ?= 400
GUESSER_CASES ?= 462
oracle: $(B)/oracle/oracle $(ORACLE_STUBS) $(B)/tests/tiny-model ## compare CASES (800) placements, TENSOR_CASES (400) of split mode tensor and GUESSER_CASES (462) of MTP, EAGLE-3, DFlash and DSpark heads, Gemma 4 assistants and drafts with the real CUDA host code, to the byte
	@tests/oracle/run "$(B)" $(CASES) $(TENSOR_CASES) 1 $(GUESSER_CASES)

# --- fuzzing: libFuzzer comes with clang ---

FUZZ_FLAGS := -std=gnu11 -D_GNU_SOURCE -DVR_VERSION='"fuzz"' -Isrc -MMD -MP -O1 -g -fno-sanitize-recover=all

# Parsers of requests, grammars, pictures and frames are fuzzed without the rest of their rooms.
FUZZED_ALONG := $(wildcard src/tunnel/packet.c src/tunnel/hello.c src/tunnel/pairs.c src/tunnel/identity.c) \
                $(wildcard src/remote/url.c src/remote/hub.c src/remote/net.c src/remote/curl.c src/server/http/http.c src/server/http/multipart.c src/server/http/auth.c src/server/api/body.c) \
                $(filter-out %_render.c,$(wildcard src/server/dialect/[b-u]*.c)) \
                $(wildcard src/engine/wire/*.c src/engine/grammar/*.c src/engine/content/*.c src/engine/prepare/prepared.c src/engine/cache/kv_rows.c)
FUZZ_OBJECTS := $(patsubst src/%.c,$(B)/fuzz/obj/%.o,$(PURE) $(FUZZED_ALONG))
$(B)/fuzz/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(call say,FUZZ)
	$(Q)clang $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link,address,undefined -c -o $@ $<

$(B)/fuzz/fuzz_presets: $(patsubst %,$(B)/fuzz/obj/cli/%.o,input/presets manual options settings)
$(FUZZERS): $(B)/fuzz/%: tests/fuzz/%.c $(FUZZ_OBJECTS)
	@mkdir -p $(@D)
	$(call say,FUZZ)
	$(Q)clang $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined -o $@ $^ $(LIBS)

fuzz: $(FUZZERS) ## fuzz every parser for SECONDS_FUZZ seconds (60)
	@tests/fuzz/run "$(B)" $(SECONDS_FUZZ) $(FUZZERS)

# --- the rest ---

bench-hair: all $(B)/bench/hair ## plan models that slightly exceed random mixes of GPUs (some minutes)
	@$(B)/bench/hair "$(B)/models"

bench-front: $(B)/vram-llm $(B)/tests/fake-engine ## CPU time of the HTTP server, and its response times under many streams
	@tools/stretch "$(B)/models" devstral-small-24b
	@VR_BUILD="$(abspath $(B))" VR_MODEL="$(abspath $(B))/models/Devstral-Small-2505-Q5_K_M.gguf" "$$(tools/node)" bench/front.mjs

bench-attack: $(B)/vram-llm $(B)/tests/tiny-model $(B)/tests/tiny-mmproj ## attacks on a shared server, fair shares, and MINUTES (60) of soak (an hour and a half)
	@bench/hostile attack "$(B)"
	@bench/hostile fair "$(B)"
	@bench/hostile soak "$(B)" --minutes $(or $(MINUTES),60)

bench-beside: $(B)/bench/beside $(B)/tests/tiny-model ## SETS (1,000) random sets of models and cards: what is unloaded for what, and joint plans, against brute force (half an hour)
	@$(B)/bench/beside "$(B)" $(SETS)

bench-pull: $(B)/vram-llm $(B)/tests/tiny-model $(B)/bench/send-file ## a download beside curl's, from one server on loopback
	@VR_BUILD="$(abspath $(B))" "$$(tools/node)" bench/pull.mjs

bench-nodes: $(B)/vram-llm $(B)/tests/tiny-model $(B)/bench/slow-link $(B)/bench/plain-rpc $(B)/bench/tunnel-port ## the tunnel against plain RPC, nodes beside llama-server --rpc, and predicted against measured behind links of several latencies
	@bench/build-llama-server "$(B)" rpc
	@VR_BUILD="$(abspath $(B))" "$$(tools/node)" bench/nodes.mjs

bench-serve: $(B)/vram-llm $(B)/tests/tiny-model ## serving beside llama.cpp's own server, which is built for it (a few minutes)
	@bench/serve "$(B)" $(ROUNDS)

bench-spec: $(B)/vram-llm $(B)/tests/tiny-model ## speculative decoding: none, automatic and fixed numbers of guesses (some minutes)
	@bench/spec "$(B)" $(ROUNDS)

# The fixture tests/fixtures/rhymes.gguf; -march=native because it is run where it is built.
$(B)/mtp-train: $(wildcard tools/train/mtp/*.[ch]) tests/unit/tiny_vocab.h | $(ENGINE_AT)/which
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) -O3 -march=native -ffast-math -Itests/unit $(ENGINE_INC) -o $@ $(filter %.c,$^) $(ENGINE_LIBS) -lm

train-mtp: $(B)/mtp-train ## train the small hybrid model with an MTP head that tests use (three minutes of processor time)
	@$(B)/mtp-train --check && $(B)/mtp-train tests/fixtures/rhymes.gguf

bench-agents: $(B)/vram-llm $(B)/tests/tiny-model ## agents with growing histories beside llama.cpp's own server: tokens recomputed, time to first token (half an hour)
	@bench/agents "$(B)"

bench-edits: $(B)/tests/engine-main $(B)/tests/engine-client $(B)/tests/tiny-model $(B)/tests/tiny-mmproj ## 500 random edits of histories for each kind of memory: is the text the same with every cache (ten minutes)
	@bench/edits "$(B)"

bench-pool: $(B)/vram-llm $(B)/tests/tiny-model ## one KV pool against fixed slots: processor time per token with 1, 8 and 32 streams (some minutes)
	@VR_BUILD="$(abspath $(B))" "$$(tools/node)" bench/pool.mjs

bench: all $(B)/bench/timeit $(B)/bench/make-vocab $(B)/bench/probe $(B)/bench/plan $(B)/bench/splits ## measure, as ratios in one run
	@bench/analyze "$(B)"
	@tools/stretch "$(B)/models"
	@$(B)/bench/probe "$(B)/models" tests/fixtures/rigs "$(B)/bench"
	@$(B)/bench/plan "$(B)/models" tests/fixtures/rigs "$(B)/bench"
	@$(B)/bench/splits "$(B)/models" tests/fixtures/rigs

$(B)/bench/%: bench/%.c $(wildcard bench/*.h) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,BENCH)
	$(Q)$(CC) $(ALL_CFLAGS) -Itests/unit $(ENGINE_INC) -o $@ $< $(LIBRARY) -lcmocka $(LIBS) $(ENGINE_LIBS) -lstdc++

docs-figures: ## run the benchmarks that the documentation quotes, or NAMES of them, and keep what they print in docs/figures (half an hour)
	@tools/docs/figures "$(B)" $(NAMES)

docs: ## the documentation as a site: build/docs/index.html
	@tools/setup docs
	@tools/docs/site "$(B)/docs"

fmt: ## format the sources
	@clang-format -i $(FORMAT)

install: dist ## install under PREFIX (/usr/local): program, engine, demo model, manual page, completions
	@tools/dist/install "$(B)/dist/vram-llm-$(VERSION)-linux-x86_64" "$(DESTDIR)$(PREFIX)"

# --- the tarball: any x86-64 Linux with glibc 2.34 or newer, no package needed ---

COMPAT := arc4random arc4random_buf _dl_find_object
dist: $(B)/vram-llm $(B)/dist/vram-llm $(B)/dist/glibc ## a tarball that runs on any x86-64 Linux with glibc >= 2.34
	@tools/dist/make "$(B)" $(VERSION)

$(B)/dist/vram-llm: $(B)/obj/cli/main.o $(LIBRARY) tools/dist/compat.c | $(MTMD) $(RPC)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $(@D)/compat.o tools/dist/compat.c
	$(Q)$(CXX) $(HARDEN_LDFLAGS) $(EXTRA) -o $@ $(B)/obj/cli/main.o $(LIBRARY) $(@D)/compat.o $(COMPAT:%=-Wl,--export-dynamic-symbol=%) \
	  -Wl,-Bstatic -ljansson -levent_openssl -levent -lssl -lcrypto -lseccomp -Wl,-Bdynamic -ldl -lm \
	  $(filter-out -Wl%,$(ENGINE_LIBS)) -Wl,-rpath,'$$ORIGIN/../lib:$$ORIGIN/../lib/vram-llm'

# --- a Debian package, of the same with Debian's own libraries ---

deb: dist $(B)/dist/vram-llm-deb ## a Debian package, with a service
	@tools/setup deb
	@tools/deb/make "$(B)" $(VERSION)

$(B)/dist/vram-llm-deb: $(B)/obj/cli/main.o $(LIBRARY) | $(MTMD) $(RPC)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CXX) $(HARDEN_LDFLAGS) $(EXTRA) -o $@ $^ $(LIBS) $(filter-out -Wl%,$(ENGINE_LIBS)) -Wl,-rpath,/usr/lib/vram-llm

$(B)/dist/glibc: tools/dist/glibc.c
	@mkdir -p $(@D)
	$(call say,TOOL)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $<

container: dist ## a container of the tarball, with podman or docker
	@tools/container/make "$(B)" $(VERSION)

check-container: dist ## the container, built by buildah and run (needs root, buildah, debootstrap and a mirror)
	@tests/container.sh "$(B)" $(VERSION)

check-dist: dist $(B)/tests/tiny-model
	@tests/dist.sh "$(B)" $(VERSION)

check-deb: deb ## the package, installed and purged in bare Debian 12 and 13 (needs root, debootstrap and a mirror)
	@tests/deb.sh "$(B)" $(VERSION)

# --- aarch64, with Debian's cross compiler and libraries ---

aarch64: ## cross-build the program for aarch64 Linux: build/aarch64/vram-llm
	@tools/setup aarch64
	@tools/aarch64/make build/aarch64

check-aarch64: aarch64 ## run it under qemu-user: a plan, and a chat with the demo model (some minutes; needs root)
	@tests/aarch64.sh build/aarch64

clean: ## remove what was built
	rm -rf build

-include $(OBJECTS:.o=.d) $(FUZZ_OBJECTS:.o=.d) $(UNITS:%=%.d) $(wildcard $(B)/oracle/*.d)
