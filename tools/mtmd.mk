# libmtmd.a: the part of llama.cpp that reads pictures (tools/mtmd), which its prebuilt packages leave out. About 50 CPU
# seconds, once per engine.
#   make -f tools/mtmd.mk AT=build/engine/src OUT=build/engine/mtmd

SOURCES := $(addprefix tools/mtmd/,mtmd.cpp mtmd-audio.cpp mtmd-image.cpp mtmd-helper.cpp clip.cpp) \
           $(patsubst $(AT)/%,%,$(wildcard $(AT)/tools/mtmd/models/*.cpp)) \
           vendor/hash/hash.cpp vendor/hash/sha256/sha256.c
# named after the engine's folder, so that objects of another engine are never taken for these
STAMP   := $(OUT)/$(notdir $(realpath $(AT)))
OBJECTS := $(SOURCES:%=$(STAMP)/%.o)
INC     := $(addprefix -I$(AT)/,include ggml/include common tools/mtmd vendor \
           $(addprefix vendor/,stb miniaudio sheredom hash hash/rotate-bits hash/sha256))

$(OUT)/libmtmd.a: $(OBJECTS)
	@printf '  %-5s %s\n' AR $(notdir $@)
	@rm -f $@ && ar rcs $@ $^

$(STAMP)/%.cpp.o: $(AT)/%.cpp
	@mkdir -p $(@D)
	@printf '  %-5s %s\n' C++ $*
	@$(CXX) -std=c++17 -O1 -w -fPIC $(INC) -c -o $@ $<

$(STAMP)/%.c.o: $(AT)/%.c
	@mkdir -p $(@D)
	@printf '  %-5s %s\n' CC $*
	@$(CC) -O1 -w -fPIC $(INC) -c -o $@ $<
