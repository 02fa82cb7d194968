# libmtmd.a: the part of llama.cpp that reads pictures (tools/mtmd), which its prebuilt packages leave out. About 50 CPU
# seconds, once per engine.
#   make -f tools/mtmd.mk AT=build/engine/src OUT=build/engine/mtmd

include tools/harden.mk
SOURCES := $(addprefix tools/mtmd/,mtmd.cpp mtmd-audio.cpp mtmd-image.cpp mtmd-helper.cpp clip.cpp) \
           $(patsubst $(AT)/%,%,$(wildcard $(AT)/tools/mtmd/models/*.cpp)) \
           vendor/hash/hash.cpp vendor/hash/sha256/sha256.c
# named after the engine's folder, so that objects of another engine are never taken for these
STAMP   := $(OUT)/$(notdir $(realpath $(AT)))
# pictures come from strangers; -Werror of a warning that -w turns off has no effect
FLAGS   := -O1 -w $(HARDEN_CFLAGS) -fPIC
OBJECTS := $(SOURCES:%=$(STAMP)/%.o)
INC     := $(addprefix -I$(AT)/,include ggml/include common tools/mtmd vendor \
           $(addprefix vendor/,stb miniaudio sheredom hash hash/rotate-bits hash/sha256))

$(OUT)/libmtmd.a: $(OBJECTS)
	@printf '  %-5s %s\n' AR $(notdir $@)
	@rm -f $@ && $(AR) rcs $@ $^

$(STAMP)/%.cpp.o: $(AT)/%.cpp tools/harden.mk
	@mkdir -p $(@D)
	@printf '  %-5s %s\n' C++ $*
	@$(CXX) -std=c++17 $(FLAGS) $(INC) -c -o $@ $<

$(STAMP)/%.c.o: $(AT)/%.c tools/harden.mk
	@mkdir -p $(@D)
	@printf '  %-5s %s\n' CC $*
	@$(CC) $(FLAGS) $(INC) -c -o $@ $<
