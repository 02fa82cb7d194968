# librpc.a: the backend of llama.cpp that computes on other machines (ggml/src/ggml-rpc/ggml-rpc.cpp, unchanged), which its
# prebuilt packages leave out. Its transport is ours (src/engine/llama/bridge_rpc.cpp), and so is how it writes a file
# (bridge_rpc_file.h). Compiled from the source of the very version that the prebuilt libraries are of: one row of
# tools/engine.lock names both. About 10 CPU seconds, once per engine.
#   make -f tools/rpc.mk AT=build/engine/src OUT=build/engine/rpc

include tools/harden.mk
# named after the engine's folder, so that objects of another engine are never taken for these
STAMP := $(OUT)/$(notdir $(realpath $(AT)))
INC   := $(addprefix -I$(AT)/,ggml/include ggml/src ggml/src/ggml-rpc)

$(OUT)/librpc.a: $(STAMP)/ggml-rpc.o $(STAMP)/bridge_rpc.o
	@printf '  %-5s %s\n' AR $(notdir $@)
	@rm -f $@ && $(AR) rcs $@ $^

# -w: other people's warnings
$(STAMP)/ggml-rpc.o: $(AT)/ggml/src/ggml-rpc/ggml-rpc.cpp src/engine/llama/bridge_rpc_file.h tools/harden.mk
	@mkdir -p $(@D)
	@printf '  %-5s %s\n' C++ ggml-rpc
	@$(CXX) -std=c++17 -O2 -w $(HARDEN_CFLAGS) -fPIC $(INC) -include src/engine/llama/bridge_rpc_file.h -c -o $@ $<

# here and not among our own objects, because each of the two needs the other
$(STAMP)/bridge_rpc.o: src/engine/llama/bridge_rpc.cpp tools/harden.mk
	@mkdir -p $(@D)
	@printf '  %-5s %s\n' C++ bridge_rpc
	@$(CXX) -std=c++17 -O2 -Wall -Wextra $(if $(CI),-Werror) $(HARDEN_CFLAGS) -fPIC $(INC) -c -o $@ $<
